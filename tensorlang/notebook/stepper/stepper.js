// Shows one frame of a derivation at a time: the program, each step, the adjoint. The frames are <details> of the page,
// which read well without this script, or come from the kernel as they are wanted.

const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
const PATIENCE = 4000;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function button(text, label, act) {
  const element = make("button", { type: "button", "aria-label": label, title: label }, text);
  element.addEventListener("click", act);
  return element;
}

function element(html) {
  return make("div").appendChild(Object.assign(document.createElement("template"), { innerHTML: html })).content
    .firstElementChild;
}

// A menu of names, each of which some frames go by. It follows the frame that is shown, and goes where it is told.
function menu(label, namesOf, count, go) {
  const frames = new Map();
  for (let k = 0; k < count; k++) {
    for (const name of namesOf(k)) frames.set(name, [...(frames.get(name) ?? []), k]);
  }
  const select = make("select", { "aria-label": label }, make("option", { value: "" }, "–"));
  for (const [name, where] of frames) {
    select.append(make("option", { value: name }, where.length > 1 ? `${name} (${where.length})` : name));
  }
  let at = 0;
  const after = () => {
    const where = frames.get(select.value) ?? [];
    return where.find((k) => k > at) ?? where[0];
  };
  const before = () => {
    const where = frames.get(select.value) ?? [];
    return where.findLast((k) => k < at) ?? where.at(-1);
  };
  const back = button("‹", `back to the same ${label}`, () => go(before()));
  const on = button("›", `on to the same ${label}`, () => go(after()));
  select.addEventListener("change", () => go(after() ?? at));
  const follow = (k) => {
    at = k;
    const names = namesOf(k);
    if (!names.includes(select.value)) select.value = names[0] ?? "";
    back.disabled = on.disabled = (frames.get(select.value) ?? []).length < 2;
  };
  return { bar: make("label", { class: "menu" }, `${label} `, select, back, on), follow };
}

// `source` has the `titles` of the frames and the names of what they are `about`; `frame(k)` gives an element or a
// promise of one, and `moved(k)` is told which frame is shown.
function stepper(section, source) {
  const last = source.titles.length - 1;
  const stage = make("div", { class: "stage", tabindex: "0", role: "group", "aria-label": "step" });
  const slider = make("input", { type: "range", min: "0", max: `${last}`, "aria-label": "step" });
  const status = make("output", { "aria-live": "polite" });
  let at = -1;

  async function show(k, again = false) {
    k = Math.min(Math.max(Math.round(k), 0), last);
    if (k === at && !again) return;
    at = k;
    slider.value = `${k}`;
    slider.setAttribute("aria-valuetext", source.titles[k]);
    status.textContent = k === 0 || k === last ? source.titles[k] : `step ${k} of ${last - 1}: ${source.titles[k]}`;
    for (const part of [first, back]) part.disabled = k === 0;
    for (const part of [on, end]) part.disabled = k === last;
    rules.follow(k);
    names.follow(k);
    source.moved(k);
    const late = setTimeout(() => stage.replaceChildren(make("p", { class: "note" }, source.missing)), PATIENCE);
    const frame = await source.frame(k);
    clearTimeout(late);
    if (k !== at) return;
    frame.open = true;
    stage.replaceChildren(frame);
  }

  const first = button("«", "the program", () => show(0));
  const back = button("‹", "one step back", () => show(at - 1));
  const on = button("›", "one step on", () => show(at + 1));
  const end = button("»", "the adjoint", () => show(last));
  const isStep = (k) => k > 0 && k < last;
  const rules = menu("rule", (k) => (isStep(k) ? [source.titles[k]] : []), last + 1, show);
  const names = menu("statement", (k) => source.about[k], last + 1, show);
  slider.addEventListener("input", () => show(Number(slider.value)));
  const bar = make("div", { class: "bar", role: "toolbar", "aria-label": "derivation" });
  bar.append(first, back, slider, on, end, status, rules.bar, names.bar);

  const keys = (event) => {
    const free = !["SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "number";
    if (!(event.key in STEPS) || !free || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    show(STEPS[event.key] === -Infinity ? 0 : STEPS[event.key] === Infinity ? last : at + STEPS[event.key]);
  };
  (source.isWholePage ? document : section).addEventListener("keydown", keys);
  const origin = (event) => event.target.closest("a.from");
  stage.addEventListener("click", (event) => {
    if (event.target.closest("details.frame > summary")) event.preventDefault();
    if (!origin(event)) return;
    event.preventDefault();
    show(Number(origin(event).dataset.step));
  });
  const light = (event) => {
    const name = origin(event)?.textContent;
    for (const link of stage.querySelectorAll("a.from")) link.classList.toggle("lit", link.textContent === name);
  };
  for (const kind of ["pointerover", "focusin", "focusout", "pointerleave"]) stage.addEventListener(kind, light);
  section.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab would take the arrow keys
  section.classList.add("live");
  section.append(bar, stage);
  show(source.start);
  return { show, bar, at: () => at };
}

function fromPage(section) {
  const inside = [...section.querySelectorAll("details.frame")];
  const text = section.querySelector("script.rest")?.textContent;
  const rest = text ? JSON.parse(text) : { titles: [], about: [], frames: [] };
  const end = inside.pop();
  const titles = [...inside.map((frame) => frame.dataset.title), ...rest.titles, end.dataset.title];
  const names = (frame) => frame.dataset.about.split(" ").filter(Boolean);
  const about = [...inside.map(names), ...rest.about, names(end)];
  for (const frame of [...inside, end]) frame.remove();
  const isWholePage = section.dataset.page === "whole";
  const fromAddress = () => Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? 0);
  const shown = stepper(section, {
    titles,
    about,
    start: isWholePage ? fromAddress() : 0,
    isWholePage,
    moved: (k) => { // the address leads to the step; a page without one, such as in a frame, has none to follow
      if (isWholePage && location.protocol !== "about:" && k !== fromAddress()) history.replaceState(null, "", `#step-${k}`);
    },
    frame: (k) => (k === titles.length - 1 ? end : inside[k] ?? element(rest.frames[k - inside.length])),
  });
  if (isWholePage) addEventListener("hashchange", () => shown.show(fromAddress()));
}

function fromKernel({ model, el }) {
  const section = make("section", { class: "stepper", "aria-label": model.get("label") });
  el.replaceChildren(make("div", { class: "tensorlang" }, section));
  const known = new Map();
  const waiting = new Map();
  const receive = (frames) => {
    for (const [key, html] of Object.entries(frames)) {
      known.set(Number(key), element(html));
      waiting.get(Number(key))?.(known.get(Number(key)));
      waiting.delete(Number(key));
    }
  };
  receive(model.get("frames"));
  const shown = stepper(section, {
    titles: model.get("titles"),
    about: model.get("about").map((names) => names.split(" ").filter(Boolean)),
    start: model.get("step"),
    isWholePage: false,
    missing: "Waiting for the kernel that made this derivation. If it has ended, run the cell again.",
    moved: (k) => {
      model.set("step", k);
      model.save_changes();
    },
    frame: (k) => {
      if (known.has(k)) return known.get(k);
      return new Promise((resolve) => {
        waiting.set(k, resolve);
        model.send({ wanted: k });
      });
    },
  });

  const note = make("p", { class: "note", role: "status" }, model.get("note"));
  const sizes = make("div", { class: "sizes" });
  for (const [name, value] of Object.entries(model.get("sizes"))) {
    const input = make("input", { type: "number", min: "0", step: "1", value: `${value}` });
    const apply = () => {
      model.set("sizes", { ...model.get("sizes"), [name]: Number(input.value) });
      model.save_changes();
    };
    input.addEventListener("change", apply);
    input.addEventListener("keydown", (event) => event.key === "Enter" && apply()); // of which JupyterLab makes no change
    sizes.append(make("label", {}, `${name} = `, input));
  }
  shown.bar.after(sizes, note);

  const answer = (message) => receive(message.frames);
  const moved = () => shown.show(model.get("step"));
  const renewed = () => {
    known.clear();
    note.textContent = model.get("note");
    receive(model.get("frames"));
    shown.show(shown.at(), true);
  };
  model.on("msg:custom", answer);
  model.on("change:step", moved);
  model.on("change:version", renewed);
  return () => {
    model.off("msg:custom", answer);
    model.off("change:step", moved);
    model.off("change:version", renewed);
  };
}

export function everywhere() {
  for (const section of document.querySelectorAll("section.stepper:not(.live)")) fromPage(section);
}

export default { render: fromKernel };
