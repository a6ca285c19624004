// Answers questions in Node: `node ask.mjs FOLDER < questions.json > answers.json`, both lists, where FOLDER was built.
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const folder = resolve(process.argv[2]) + "/";
const { start } = await import(pathToFileURL(folder + "engine.mjs").href);
const read = async (file) => new Uint8Array(await readFile(folder + file)).buffer;
const clock = (since) => Math.round(performance.now() - since);

let begin = performance.now();
let answer = await start(read, folder);
const started = clock(begin), answers = [];
let text = "";
for await (const part of process.stdin) text += part;
for (const question of JSON.parse(text)) {
  begin = performance.now();
  try {
    const found = answer(question);
    answers.push({ found, milliseconds: clock(begin) });
  } catch (error) {
    answers.push({ lost: String(error), milliseconds: clock(begin) });
    answer = await start(read, folder);
  }
}
process.stdout.write(JSON.stringify({ started, answers }));
