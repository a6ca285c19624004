// Where the site has the playground: programs that pages show lead to it.
const WRITTEN = /tl\.parse\(\s*"""([\s\S]*?)"""/, DEFINED = /^\s*[A-Za-z_]\w*\([^=]*\)\s*=/;

addEventListener("DOMContentLoaded", () => {
  const root = document.documentElement.dataset.content_root ?? "./";
  for (const block of document.querySelectorAll(".highlight-tl, .highlight-python")) {
    const code = block.querySelector("pre")?.textContent ?? "";
    const text = (block.classList.contains("highlight-tl") ? code : WRITTEN.exec(code)?.[1] ?? "").split("-- becomes")[0];
    if (!DEFINED.test(text.replace(/--.*/g, ""))) continue;
    const link = Object.assign(document.createElement("a"), { className: "playground", textContent: "open in the playground" });
    link.href = `${root}playground/index.html#${encodeURIComponent(JSON.stringify({ text: text.trim() + "\n" }))}`;
    block.append(link);
  }
});
