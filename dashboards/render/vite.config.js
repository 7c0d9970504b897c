import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [react()],
  // Grafana's packages expect a bundler that knows Node's globals.
  define: { 'process.env': {}, 'process.env.NODE_ENV': '"production"' },
  resolve: { dedupe: ['react', 'react-dom'] },
  build: { chunkSizeWarningLimit: 10000 },
});
