// Answers the page's questions, in a thread of its own, so that the page can end a question that takes long.
import { start } from "./engine.mjs";

const here = (file) => new URL(file, import.meta.url).href;
const read = async (file) => {
  const reply = await fetch(here(file));
  if (!reply.ok) throw new Error(`${file}: ${reply.status}`);
  return reply.arrayBuffer();
};

const started = start(read, here("./")).then(
  (answer) => { self.postMessage({ ready: true }); return answer; },
  (error) => { self.postMessage({ failed: String(error) }); return null; },
);

self.onmessage = async ({ data: { number, question } }) => {
  const answer = await started;
  if (!answer) return;
  try {
    self.postMessage({ number, found: answer(question) });
  } catch (error) { // Python itself is gone, such as by a stack that was too deep: the page starts another
    self.postMessage({ number, lost: String(error) });
  }
};
