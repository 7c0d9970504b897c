// Brings the page up to date while it is looked at. What did not change is not touched: a reader's place, marks and focus stay.
"use strict";
(() => {
  const SECONDS = 5;
  const find = (page, id) => page.getElementById(id);

  const take = (page, id) => {
    const [here, there] = [find(document, id), find(page, id)];
    if (here && there && here.innerHTML !== there.innerHTML) here.innerHTML = there.innerHTML;
  };

  const sections = (page) => [...page.querySelectorAll("main > section")].map((each) => each.id);

  const update = async () => {
    if (document.hidden) return;
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) throw new Error(`answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    take(page, "summary");
    const [here, there] = [sections(document), sections(page)];
    if (here.length && here.join() === there.join()) here.forEach((id) => take(page, id));
    else take(page, "engines");
  };

  const repeat = async () => {
    try {
      await update();
      find(document, "stale").hidden = true;
    } catch {
      find(document, "stale").hidden = false;
    }
    setTimeout(repeat, SECONDS * 1000);
  };

  document.addEventListener("visibilitychange", () => update().catch(() => {}));
  setTimeout(repeat, SECONDS * 1000);
})();
