// Serves the built page, the dashboards and what Prometheus answers, and has Chromium draw each dashboard: node draw.js FOLDER PROMETHEUS
import { chromium } from 'playwright-core';
import { createServer } from 'node:http';
import { readFile, readdir, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';

const [folder, prometheus] = process.argv.slice(2);
const boards = new URL('..', import.meta.url).pathname;
const built = new URL('dist', import.meta.url).pathname;
const kinds = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json' };

async function answer(path, response) {
  if (path.startsWith('/api/')) {
    const got = await fetch(`http://${prometheus}${path}`);
    const text = await got.text();
    return response.writeHead(got.status, { 'Content-Type': 'application/json' }).end(text);
  }
  const name = path.split('?')[0];
  const file = name.startsWith('/boards/') ? join(boards, name.slice(8)) : name === '/window.json' ? join(folder, name) : join(built, name === '/' ? 'index.html' : name);
  const content = await readFile(file);
  return response.writeHead(200, { 'Content-Type': kinds[extname(file)] ?? 'application/octet-stream' }).end(content);
}

const server = createServer((request, response) => answer(request.url, response).catch((error) => response.writeHead(404).end(String(error))));
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
const page = await browser.newPage({ viewport: { width: 1420, height: 900 } });
page.on('pageerror', (error) => console.error(`page: ${error}`));
for (const name of (await readdir(boards)).filter((each) => each.endsWith('.json'))) {
  await page.goto(`http://127.0.0.1:${server.address().port}/?board=${name}`);
  await page.waitForFunction(() => document.title === 'READY', undefined, { timeout: 60000 });
  const file = join(folder, name.replace('.json', '.png'));
  await page.screenshot({ path: file, fullPage: true });
  await page.screenshot({ path: file.replace('.png', '-first.png'), fullPage: true, clip: { x: 0, y: 0, width: 1420, height: await page.evaluate(() => window.firstScreen) } });
  const empty = await page.evaluate(() => [...document.querySelectorAll('[data-empty]')].map((each) => each.dataset.empty));
  console.log(`${file}: ${Math.round((await stat(file)).size / 1024)} KB; without data: ${empty.join(', ') || 'none'}`);
}
await browser.close();
server.close();
