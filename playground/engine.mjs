// Python with tensorlang in it, in a worker of a page or in Node: nothing is asked of any server but the files beside this.

const FILES = { python: "./pyodide.mjs", isl: "isl.wasm", packages: "packages.zip" };

/** What isl imports: it is given no files, and what it would print is dropped. */
function surroundings(memory) {
  return {
    env: { emscripten_notify_memory_growth() {} },
    wasi_snapshot_preview1: {
      proc_exit(code) { throw new Error(`isl ended with ${code}`); },
      fd_close: () => 0,
      fd_seek: () => 0,
      fd_write(file, parts, count, written) {
        const view = new DataView(memory().buffer);
        let total = 0;
        for (let k = 0; k < count; k++) total += view.getUint32(parts + 8 * k + 4, true);
        view.setUint32(written, total, true);
        return 0;
      },
    },
  };
}

/** isl's functions, and texts into its memory and out of it. */
async function startIsl(bytes) {
  let isl;
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  ({ exports: isl } = (await WebAssembly.instantiate(bytes, surroundings(() => isl.memory))).instance);
  isl._initialize();
  isl.start();
  let buffer = 0, room = 0;
  return {
    isl,
    written(text) {
      const bytes = encoder.encode(text);
      if (bytes.length >= room) {
        if (buffer) isl.give(buffer);
        room = 2 * bytes.length + 1024;
        buffer = isl.take(room);
      }
      const memory = new Uint8Array(isl.memory.buffer);
      memory.set(bytes, buffer);
      memory[buffer + bytes.length] = 0;
      return buffer;
    },
    taken(pointer, free) {
      const memory = new Uint8Array(isl.memory.buffer), end = memory.indexOf(0, pointer);
      const text = decoder.decode(memory.slice(pointer, end));
      if (free) isl.give(pointer);
      return text;
    },
  };
}

/** A function from questions to answers, as `tensorlang.play.answers.answer`; `read` gives a file's bytes. */
export async function start(read, folder) {
  const { loadPyodide } = await import(FILES.python);
  const [python, isl, packages] = await Promise.all([
    loadPyodide({ indexURL: folder }),
    read(FILES.isl).then(startIsl),
    read(FILES.packages),
  ]);
  python.registerJsModule("isl_module", isl);
  python.unpackArchive(packages, "zip", { extractDir: "/lib/tensorlang" });
  python.runPython("import sys; sys.path.insert(0, '/lib/tensorlang'); from start import asked");
  const asked = python.globals.get("asked");
  return (question) => JSON.parse(asked(JSON.stringify(question)));
}
