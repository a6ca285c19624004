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
  for (let p = 0; p < count; p++) {
    for (const name of namesOf(p)) frames.set(name, [...(frames.get(name) ?? []), p]);
  }
  const select = make("select", { "aria-label": label }, make("option", { value: "" }, "–"));
  for (const [name, where] of frames) {
    select.append(make("option", { value: name }, where.length > 1 ? `${name} (${where.length})` : name));
  }
  let at = 0;
  const after = () => {
    const where = frames.get(select.value) ?? [];
    return where.find((p) => p > at) ?? where[0];
  };
  const before = () => {
    const where = frames.get(select.value) ?? [];
    return where.findLast((p) => p < at) ?? where.at(-1);
  };
  const back = button("‹", `back to the same ${label}`, () => go(before()));
  const on = button("›", `on to the same ${label}`, () => go(after()));
  select.addEventListener("change", () => go(after() ?? at));
  const follow = (p) => {
    at = p;
    const names = namesOf(p);
    if (!names.includes(select.value)) select.value = names[0] ?? "";
    back.disabled = on.disabled = (frames.get(select.value) ?? []).length < 2;
  };
  return { bar: make("label", { class: "menu" }, `${label} `, select, back, on), follow };
}

// The list of all frames, in which those that repeat are folded: blocks of `period` steps, `times` times from `first` on.
function outline({ steps, titles, about, folds }) {
  const list = make("ol");
  const items = new Map();
  const entry = (p) => {
    const link = make("a", { href: `#step-${steps[p]}`, "data-names": about[p].join(" ") }, titles[p]);
    if (about[p].length) link.append(" ", make("code", {}, about[p][0]));
    const item = make("li", { value: steps[p] }, link);
    items.set(p, item);
    return item;
  };
  const closed = []; // the folds: their frames, and where they are listed
  for (let p = 0; p < steps.length; ) {
    const fold = folds.find(([first, period, times]) => first <= steps[p] && steps[p] < first + period * times);
    if (!fold) {
      list.append(entry(p++));
      continue;
    }
    const [first, period, times] = fold;
    const inside = [];
    while (p < steps.length && steps[p] < first + period * times) inside.push(p++);
    const rules = [...new Set(inside.slice(0, period).map((q) => titles[q]))].join(" + ");
    const summary = make("summary", {}, `${rules} ×${times}`);
    const details = make("details", {}, summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(make("ol", {}, ...inside.map(entry)));
      mark();
    });
    closed.push({ inside: new Set(inside), summary });
    list.append(make("li", { value: first }, details));
  }
  let at = 0;
  const mark = () => {
    for (const current of list.querySelectorAll("[aria-current]")) current.removeAttribute("aria-current");
    const link = items.get(at)?.querySelector("a") ?? closed.find(({ inside }) => inside.has(at))?.summary;
    link?.setAttribute("aria-current", "step");
    for (const { inside, summary } of closed) if (inside.has(at)) summary.setAttribute("aria-current", "step");
    if (link && list.clientHeight < list.scrollHeight) list.scrollTop = link.offsetTop - list.offsetTop - list.clientHeight / 2;
  };
  const follow = (p) => {
    at = p;
    mark();
  };
  return { list, follow };
}

// `source` has the numbers of the frames, `steps`, in order, their `titles` and the names of what they are `about`, and
// which steps repeat, `folds`, and where names come from, `origins`; `frame(k)` gives an element or a promise of one, and `moved(k)` is told which is shown.
// `graph` and `rules` are elements.
function stepper(section, source) {
  const { steps, titles, about, origins, graph, rules: laws } = source;
  const end = steps.length - 1;
  const stage = make("div", { class: "stage", tabindex: "0", role: "group", "aria-label": "step" });
  const slider = make("input", { type: "range", min: "0", max: `${end}`, "aria-label": "step" });
  const status = make("output", { "aria-live": "polite" });
  const listed = outline(source);
  let at = -1; // the place of the frame that is shown

  async function go(p, again = false) {
    p = Math.min(Math.max(Math.round(p), 0), end);
    if (p === at && !again) return;
    at = p;
    const [k, title] = [steps[p], titles[p]];
    slider.value = `${p}`;
    slider.setAttribute("aria-valuetext", title);
    status.textContent = p === 0 || p === end ? title : `step ${k} of ${steps[end] - 1}: ${title}`;
    for (const part of [first, back]) part.disabled = p === 0;
    for (const part of [on, last]) part.disabled = p === end;
    for (const part of [rules, names, listed]) part.follow(p);
    for (const node of graph?.querySelectorAll("g.node") ?? []) {
      node.classList.toggle("now", node.dataset.names.split(" ").some((name) => about[p].includes(name)));
      node.classList.toggle("done", Number(node.dataset.reversed ?? Infinity) <= k);
    }
    const [drawn, now] = [graph?.querySelector(".drawn"), graph?.querySelector("g.now")];
    if (now) {
      const [outer, inner] = [drawn.getBoundingClientRect(), now.getBoundingClientRect()];
      drawn.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
      drawn.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
    }
    source.moved(k);
    const late = setTimeout(() => stage.replaceChildren(make("p", { class: "note" }, source.missing)), PATIENCE);
    const frame = await source.frame(k);
    clearTimeout(late);
    if (p !== at) return;
    frame.open = true;
    stage.replaceChildren(frame);
  }

  function show(k) {
    const p = steps.indexOf(k);
    if (p < 0) status.textContent = `step ${k} is not among the steps that are here`;
    else go(p);
  }

  const first = button("«", "the program", () => go(0));
  const back = button("‹", "one step back", () => go(at - 1));
  const on = button("›", "one step on", () => go(at + 1));
  const last = button("»", "the adjoint", () => go(end));
  const rules = menu("rule", (p) => (p > 0 && p < end ? [titles[p]] : []), end + 1, go);
  const names = menu("statement", (p) => about[p], end + 1, go);
  slider.addEventListener("input", () => go(Number(slider.value)));
  const bar = make("div", { class: "bar", role: "toolbar", "aria-label": "derivation" });
  bar.append(first, back, slider, on, last, status, rules.bar, names.bar);
  const all = make("details", { class: "outline" }, make("summary", {}, "All steps"), listed.list);
  const beside = make("aside", { "aria-label": "the program and all steps" }, ...(graph ? [graph] : []), all);

  const keys = (event) => {
    const free = !["SELECT", "TEXTAREA"].includes(event.target.tagName) && event.target.type !== "number";
    if (!(event.key in STEPS) || !free || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    go(STEPS[event.key] === -Infinity ? 0 : STEPS[event.key] === Infinity ? end : at + STEPS[event.key]);
  };
  (source.isWholePage ? document : section).addEventListener("keydown", keys);

  section.addEventListener("click", (event) => {
    if (event.target.closest("details.frame > summary")) event.preventDefault();
    const law = event.target.closest("a.rule[href^='#']");
    const entry = law && laws.querySelector(`[id="${law.hash.slice(1)}"]`);
    const link = event.target.closest("a[href^='#']:not(.rule)");
    const to = link ? /step-(\d+)$/.exec(link.hash)[1] : event.target.closest("g.node")?.dataset.reversed;
    if (entry) {
      event.preventDefault();
      laws.open = true;
      for (const other of laws.querySelectorAll("dt")) other.classList.toggle("lit", other === entry);
      entry.scrollIntoView({ block: "nearest" });
    } else if (to !== undefined) {
      event.preventDefault();
      show(Number(to));
    }
  });
  // a name lights up the term of the program, its cotangent, the steps, and the generated line
  const namesOf = (part) => (part.matches("a.from") ? [part.textContent] : part.dataset.names.split(" "));
  const light = (event) => {
    const isOn = event.type === "pointerover" || event.type === "focusin";
    const from = isOn ? event.target.closest("a.from, g.node") : null;
    const lit = new Set(from ? namesOf(from).flatMap((name) => [name, ...(origins[name]?.[1] ?? [])]) : []);
    for (const part of section.querySelectorAll("a.from, [data-names]")) {
      part.classList.toggle("lit", namesOf(part).some((name) => name && lit.has(name)));
    }
    if (from?.matches("a.from")) {
      const k = origins[from.textContent][0];
      from.title = `made in step ${k} by ${titles[steps.indexOf(k)] ?? "a rule"}`;
    }
  };
  for (const kind of ["pointerover", "pointerleave", "focusin", "focusout"]) section.addEventListener(kind, light);
  section.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab would take the arrow keys
  section.classList.add("live");
  section.append(bar, make("div", { class: "body" }, stage, beside), laws);
  all.open = section.clientWidth > 800;
  go(Math.max(0, steps.indexOf(source.start)));
  return { show, again: () => go(at, true), bar };
}

// Costs for all sizes, as formulas.py writes them, at sizes.
const atomAt = (atom, sizes) =>
  typeof atom === "string" ? sizes[atom] : Math.floor(affineAt(atom[0], sizes) / atom[1]);
const affineAt = ([constant, terms], sizes) => terms.reduce((sum, [atom, k]) => sum + k * atomAt(atom, sizes), constant);
const holds = ([sign, a], sizes) => (sign === "=" ? affineAt(a, sizes) === 0 : affineAt(a, sizes) >= 0);
const polynomialAt = ([denominator, terms], sizes) =>
  terms.reduce((sum, [k, atoms]) => sum + atoms.reduce((product, atom) => product * atomAt(atom, sizes), k), 0) / denominator;
const costAt = (cells, sizes) =>
  cells.filter(([conditions]) => conditions.every((c) => holds(c, sizes)))
    .reduce((sum, [, polynomial]) => sum + polynomialAt(polynomial, sizes), 0);

// Lets the reader change the sizes that costs are shown at.
function changeable(costs) {
  const sizes = JSON.parse(costs.dataset.sizes);
  const bar = make("div", { class: "sizes" });
  for (const [name, value] of Object.entries(sizes)) {
    const input = make("input", { type: "number", min: "0", step: "1", value: `${value}`, "aria-label": `size ${name}` });
    input.addEventListener("input", () => {
      if (!/^\d+$/.test(input.value)) return;
      sizes[name] = Number(input.value);
      for (const cost of costs.querySelectorAll(".cost")) {
        cost.textContent = costAt(JSON.parse(cost.dataset.formula), sizes).toLocaleString("en-US");
      }
    });
    bar.append(make("label", {}, `${name} = `, input));
  }
  costs.prepend(bar);
}

// Steps that a page holds compressed, as a list of HTML.
function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

function fromPage(section) {
  const inside = [...section.querySelectorAll("details.frame")];
  const text = section.querySelector("script.rest")?.textContent;
  const rest = text ? JSON.parse(text) : { steps: [], titles: [], about: [], chunks: [] };
  const unpacked = new Map();
  const far = async (place) => {
    const chunk = Math.floor(place / rest.size);
    if (!unpacked.has(chunk)) unpacked.set(chunk, unpack(rest.chunks[chunk]));
    return element((await unpacked.get(chunk))[place % rest.size]);
  };
  const entries = inside.map((frame) => {
    const { step, title, about } = frame.dataset;
    return { step: Number(step), title, about: about.split(" ").filter(Boolean), get: () => frame };
  });
  rest.steps.forEach((step, place) => {
    entries.push({ step, title: rest.titles[place], about: rest.about[place], get: () => far(place) });
  });
  entries.sort((a, b) => a.step - b.step);
  for (const costs of section.querySelectorAll(".costs")) changeable(costs);
  for (const part of section.querySelectorAll("details.frame, details.fold")) part.remove();
  const isWholePage = section.dataset.page === "whole";
  const fromAddress = () => Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? 0);
  const shown = stepper(section, {
    steps: entries.map(({ step }) => step),
    titles: entries.map(({ title }) => title),
    about: entries.map(({ about }) => about),
    folds: JSON.parse(section.dataset.folds),
    origins: JSON.parse(section.dataset.origins),
    graph: section.querySelector("figure.graph"),
    rules: section.querySelector("details.rules"),
    start: isWholePage ? fromAddress() : 0,
    isWholePage,
    moved: (k) => { // the address leads to the step; a page without one, such as in a frame, has none to follow
      if (isWholePage && location.protocol !== "about:" && k !== fromAddress()) history.replaceState(null, "", `#step-${k}`);
    },
    frame: (k) => entries.find(({ step }) => step === k).get(),
    missing: "This step is being unpacked.",
  });
  if (isWholePage) addEventListener("hashchange", () => location.hash.startsWith("#step-") && shown.show(fromAddress()));
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
    steps: model.get("titles").map((_, k) => k),
    titles: model.get("titles"),
    folds: model.get("folds"),
    origins: model.get("origins"),
    graph: element(model.get("graph")),
    rules: element(model.get("rules")),
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
    shown.again();
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
