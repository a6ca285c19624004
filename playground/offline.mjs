// Keeps the files of this folder, so that the page opens without a network: an answer from the network is kept, and where
// there is none the one that was kept last is given. The name has the build's version; other builds' files are dropped.
const NAME = "playground-BUILD";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name.startsWith("playground-") && name !== NAME) await caches.delete(name);
  await self.clients.claim();
})()));
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method !== "GET" || !url.startsWith(self.registration.scope)) return;
  event.respondWith((async () => {
    const kept = await caches.open(NAME), page = url.split(/[?#]/)[0];
    const known = await kept.match(page);
    if (known && /\.(wasm|zip|mjs)$/.test(page)) return known;
    try {
      const reply = await fetch(event.request);
      if (reply.ok) await kept.put(page, reply.clone());
      return reply;
    } catch (error) {
      if (known) return known;
      throw error;
    }
  })());
});
