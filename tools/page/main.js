// The page: its sections, what is selected, and the keys.

const main = document.getElementById("main"), spoken = document.getElementById("spoken");
const views = {};

function section(id, title, ...content) {
  document.getElementById("sections").append(el("a", { href: "#" + id }, title));
  main.append(el("section", { id, "aria-labelledby": id + "-title" }, el("h2", { id: id + "-title" }, title), ...content));
}
const note = (...text) => el("p", { class: "note" }, ...text);

// ---- What it is ----

function summary() {
  const memory = engine.memory, facts = engine.metadata;
  const card = (value, label, kind) => el("div", { class: "card" }, el("b", { class: kind }, value), el("span", {}, label));
  const cards = [card(String(layers.length), "layers" + (nodes.length ? ` of ${many(nodes.length, "node")}` : ""))];
  if (data.measured) cards.push(card(time(data.measured.run_ms), `fastest of ${many(data.measured.runs, "run")}, ${many(data.threads, "thread")}`));
  cards.push(card(bytes(memory.weight_bytes), "weights"), card(bytes(memory.arena_bytes), "arena"));
  if (facts.precision) cards.push(card(facts.precision, "allowed precision"));
  if (data.errors) {
    const failed = data.errors.filter((e) => !e.passed).length;
    cards.push(card(failed ? `${failed} of ${data.errors.length}` : "all within", `tensors ${failed ? "beyond" : ""} ${data.tolerance} of their scale`, failed ? "bad" : "good"));
  } else if (data.build?.verified) cards.push(card("verified", "by its build", "good"));
  const entries = Object.entries(facts).filter(([, value]) => value.length < 400);
  section("summary", "Summary", el("div", { class: "cards" }, cards),
    note(`On ${data.device.name || data.device.kind}. Inputs of this page: ${data.inputs.join(", ") || "none"}.`),
    el("details", {}, el("summary", {}, "What the engine records of itself"),
       el("dl", {}, entries.map(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]))));
}

// ---- The graphs ----

const paints = {
  kind: (layer) => colour(layer.op),
  time: (layer) => heat((layer.ms || 0) / slowest),
  precision: (layer) => colour(layer.precision || "none"),
};
let paintBy = "kind";

function graphs() {
  const hasModel = nodes.length > 0;
  const canvas = (id, label) => el("canvas", { id, tabindex: 0, role: "application", "aria-label": label + ". Arrows move, Enter opens, ? lists the keys." });
  const after = canvas("after", "Graph of the engine's layers"), before = canvas("before", "Graph of the model's nodes");
  const choose = el("select", { id: "paint", "aria-label": "Colours", onchange: (e) => { paintBy = e.target.value; redraw(); } },
    el("option", { value: "kind" }, "Colours: kind of layer"),
    data.measured ? el("option", { value: "time" }, "Colours: time") : null,
    el("option", { value: "precision" }, "Colours: type"));
  const all = (isOpen) => () => views.after.open(layers.map((l) => l.index), isOpen);
  const pane = (title, view, node) => el("div", { class: "pane" }, el("h3", {}, title), node,
    el("div", { class: "row" }, [["+", () => views[view].zoom(1.25), "Zoom in"], ["−", () => views[view].zoom(0.8), "Zoom out"],
                                ["Whole graph", () => views[view].fit()]].map(([text, act, label]) => el("button", { onclick: act, "aria-label": label }, text))));
  const lost = nodes.filter((n) => !n.layers.length).length;
  section("graph", "Model and layers",
    note(hasModel ? "On the left the model's nodes, on the right the layers that they became: what is selected on one side is marked on the other. A layer opens to the nodes that were fused into it. "
                  : "The layers of the engine; a layer opens to the nodes of the model that were fused into it. The model's own graph is shown where the report is made with --model. ",
         lost ? `${many(lost, "node")} (dashed) ${lost === 1 ? "is" : "are"} in no layer: folded into constants, or views that cost nothing.` : ""),
    el("div", { class: "row" }, choose, el("button", { onclick: all(true) }, "Open all layers"), el("button", { onclick: all(false) }, "Close all layers")),
    el("div", { class: "graphs" + (hasModel ? "" : " single") },
       hasModel ? pane(`Model: ${many(nodes.length, "node")}`, "before", before) : null,
       pane(`Engine: ${many(layers.length, "layer")}`, "after", after), el("div", { id: "details", tabindex: 0, role: "region", "aria-label": "What is selected" })));
  const rowsOf = (layer) => layer.nodes.length ? layer.nodes.map((n) => `${n.op}  ${n.name}`) : layer.sources;
  views.after = new GraphView(after, layers.map((l) => ({
    label: `${l.op}  ·  ${l.name}`,
    detail: [l.ms !== null && !l.at_binding ? time(l.ms) : "", l.precision, l.sources.length ? many(l.sources.length, "node") : "made by the optimiser"].filter(Boolean).join("  ·  "),
    rows: rowsOf(l) })), layerEdges, (i) => paints[paintBy](layers[i]), { select: (i) => selectLayer(i, "after") });
  if (hasModel)
    views.before = new GraphView(before, nodes.map((n) => ({
      label: n.op, detail: n.name, rows: [...n.outputs.map((o) => "→ " + o)], faint: !n.layers.length })), nodeEdges,
      (i) => nodes[i].layers.length ? paints[paintBy](nodes[i].layers[0]) : isDark() ? "#2a313c" : "#e9ecf0", { select: selectNode });
}
function redraw() {
  for (const view of Object.values(views)) if (view instanceof GraphView) view.draw();
}

// ---- Selection ----

let selectedLayer = -1;
function describeLayer(l) {
  const lines = (title, list) => list.length ? [el("dt", {}, title), list.map((text) => el("dd", {}, text))] : [];
  const tried = l.tried.map((t) => `${t.tactic}: ${t.measured_ns === null ? "" : "measured " + time(t.measured_ns / 1e6) + ", "}estimated ${time(t.estimated_ns / 1e6)}${t.refused ? ", refused: rounds more than this build may" : ""}`);
  const work = l.time && l.time.flops !== undefined && !l.at_binding ? [`${scaled(l.time.flops, "FLOP")}, ${bytes(l.time.constant_bytes + l.time.activation_bytes)} read and written`] : [];
  return [el("h2", {}, `Layer ${l.index}: ${l.name}`),
    el("dl", {}, lines("Computes", [l.description]), lines("Nodes of the model", l.nodes.length ? l.nodes.map((n) => `${n.op}  ${n.name}`) : l.sources),
      lines("Tactic", [l.tactic + (l.why ? ` (${l.why})` : "")]), lines("Tried", tried.length > 1 ? tried : []),
      lines("Time", l.at_binding ? ["once for each set of shapes"] : l.ms === null ? [] : [`${time(l.ms)}, ${percent(l.percent)} of all` + (l.bound ? `; bound ${time(l.bound.ms)} by ${l.bound.by}` : "")]),
      lines("Work", work), lines("Reads", l.inputs), lines("Writes", l.outputs), lines("Not fused further", l.notes))];
}
function describeNode(n) {
  return [el("h2", {}, `${n.op}: ${n.name}`),
    el("dl", {}, el("dt", {}, "Became"), n.layers.length ? n.layers.map((l) => el("dd", {}, el("button", { onclick: () => { selectLayer(l.index); views.after.canvas.focus(); } }, `layer ${l.index}: ${l.name}`)))
                                                       : el("dd", {}, "no layer: folded into constants, or a view that costs nothing"),
      el("dt", {}, "Reads"), n.inputs.map((name) => el("dd", {}, name || "(left out)")), el("dt", {}, "Writes"), n.outputs.map((name) => el("dd", {}, name || "(not used)")))];
}
function selectLayer(index, from) {
  const layer = layers[index];
  if (!layer) return;
  selectedLayer = index;
  views.after.select(index);
  if (from !== "after") views.after.show(index);
  if (views.before) {
    views.before.select(-1, new Set(layer.nodes.map((n) => n.index)));
    if (layer.nodes.length) views.before.show(layer.nodes[0].index, true);
  }
  follow(layer);
  document.getElementById("details").replaceChildren(...describeLayer(layer));
  spoken.textContent = `Layer ${index}, ${layer.op}, ${layer.name}${layer.ms === null ? "" : ", " + time(layer.ms)}, ${many(layer.sources.length, "node")}`;
}
function selectNode(index) {
  const node = nodes[index];
  views.before.select(index);
  views.after.select(-1, new Set(node.layers.map((l) => l.index)));
  if (node.layers.length) { views.after.show(node.layers[0].index, true); follow(node.layers[0]); }
  document.getElementById("details").replaceChildren(...describeNode(node));
  spoken.textContent = `${node.op}, ${node.name}, ${node.layers.length ? "layer " + node.layers.map((l) => l.index).join(" and ") : "in no layer"}`;
}
function follow(layer) {
  views.layers.mark(layer);
  for (const part of views.memory) part.mark.place(layer.index);
}
const jump = (index) => { selectLayer(index); document.getElementById("graph").scrollIntoView(); };

// ---- The other sections ----

function timesSection() {
  views.layers = layersTable(jump);
  const why = !data.measured ? "Nothing was run for this page: it shows what the engine records alone."
    : hasLimits ? "Measured on this machine by this command, each layer in its fastest run. The mark is the least time at the limits of the device: what moves at its memory's rate, what is multiplied at its arithmetic's."
    : `Measured on this machine by this command, each layer in its fastest run. The mark is a bound by the fastest rates that a layer of this run reached, ${roof.flops ? digits(roof.flops / 1e6) + " GFLOP/s and " : ""}${digits(roof.bytes / 1e6)} GB/s: what a layer would take that multiplied or moved its tensors as fast. It is no limit of the processor.`;
  section("times", "Time by layer", note(why),
    data.measured ? [el("h3", {}, "By kind of layer"), stack(sumsBy((l) => l.op, (l) => l.at_binding ? 0 : l.ms), time), el("h3", {}, "Layers")] : null, views.layers);
}

function precisionSection() {
  const build = data.build, parts = [el("h3", {}, "Layers by the type they compute"), stack(sumsBy((l) => l.precision, () => 1), (n) => many(n, "layer"))];
  if (data.measured) parts.push(el("h3", {}, "Time by type"), stack(sumsBy((l) => l.precision, (l) => l.at_binding ? 0 : l.ms), time));
  if (!build) parts.push(note("What other precisions would gain, and what stays fp32 and why, is in the report of the build (camshaft build --json), which --build-report adds."));
  if (build?.gains?.length) parts.push(el("h3", {}, "What lower precisions would gain, by estimate"), table("Gains", build.gains, [
    { title: "Precision", key: (g) => g.precision, cell: (g) => g.precision },
    { title: "Times as fast", number: true, key: (g) => g.speedup, cell: (g) => g.speedup.toFixed(2) },
    { title: "Moves outputs by", number: true, key: (g) => g.error, cell: (g) => g.error === null ? "not known" : small(g.error) }]));
  if (build?.kept_f32?.length) parts.push(el("h3", {}, "Stay fp32: fp16 cannot hold their numbers"), note(build.kept_f32.join(", ")));
  if (build?.quantized_layers?.length) parts.push(el("h3", {}, "int8"), table("int8", build.quantized_layers, [
    { title: "Layer", isName: true, key: (l) => l.layer, cell: (l) => l.layer },
    { title: "Computed in", key: (l) => (l.quantized ? 0 : 1), cell: (l) => l.quantized ? "int8" : "floating point" },
    { title: "Floating point", number: true, key: (l) => l.float_seconds, cell: (l) => l.float_seconds ? time(l.float_seconds * 1e3) : "" },
    { title: "int8", number: true, key: (l) => l.int8_seconds, cell: (l) => l.int8_seconds ? time(l.int8_seconds * 1e3) : "" },
    { title: "Why", key: (l) => l.reason, cell: (l) => l.reason }]));
  section("precisions", "Precisions", parts);
}

function memorySection() {
  views.memory = memoryChart(jump);
  section("memory", "Memory over time",
    note(`What lies where in the arena while the layers run, with ${many(data.threads, "thread")} and at the inputs of this page: a box is a tensor from the layer that writes it to the last that reads it, in the colour of the layer that writes it; pale ones are workspaces. The line is what is alive: where it meets the top, no plan could be smaller. Inputs, outputs and weights lie elsewhere.`),
    views.memory.length ? views.memory.map((part) => [el("h3", {}, `${part.device}: ${bytes(part.peak)} for ${many(part.buffers, "buffer")}`), part.picture]) : note("Nothing lies in the arena."));
}

function tacticsSection() {
  const tactics = tacticsTable(jump);
  section("tactics", "Tactics tried", note(`Layers for which there was a choice. ${engine.metadata.tuning ? "Tuning: " + engine.metadata.tuning + ". " : ""}Estimates are the cost model's for one thread; a time is what the build measured on the machine that it ran on.`),
    tactics || note("There was one tactic for each layer."));
}

function errorsSection() {
  const parts = [];
  if (data.errors) parts.push(note(`Each tensor beside the reference evaluation of the model, given the engine's tensors before it: an error is of the layers since then, and does not grow from layer to layer. The mark is ${data.tolerance}; rounding excuses nothing here, as it does where a build is verified.`), errorsTable(data.errors));
  else parts.push(note("The error of each tensor is shown where the report is made with --model, which the reference evaluates on the inputs of this page."));
  if (data.build?.verification?.length) parts.push(el("h3", {}, "Outputs, as the build verified them"), errorsTable(data.build.verification),
    note([...(data.build.samples || []).map((s) => "On " + s), ...(data.build.not_verified || []).map((s) => "Not on " + s)].join(". ") + "."));
  section("errors", "Error by tensor", parts);
}

// ---- Search, keys and theme ----

const search = document.getElementById("search"), hitsText = document.getElementById("hits");
let hits = [], hit = -1;
function find() {
  const text = search.value.trim().toLowerCase();
  const has = (list) => list.some((t) => t.toLowerCase().includes(text));
  hits = !text ? [] : [
    ...layers.filter((l) => has([l.name, l.op, l.tactic, ...l.sources, ...l.inputs, ...l.outputs])).map((l) => () => selectLayer(l.index)),
    ...nodes.filter((n) => !n.layers.length && has([n.name, n.op, ...n.outputs])).map((n) => () => { selectNode(n.index); views.before.show(n.index); })];
  hit = -1;
  hitsText.textContent = text ? String(hits.length) : "";
}
function nextHit(step) {
  if (!hits.length) return;
  hit = (hit + step + hits.length) % hits.length;
  hits[hit]();
  hitsText.textContent = `${hit + 1} of ${hits.length}`;
}
search.addEventListener("input", find);
search.addEventListener("keydown", (e) => {
  if (e.key === "Enter") { nextHit(e.shiftKey ? -1 : 1); document.getElementById("graph").scrollIntoView(); }
  if (e.key === "Escape") { search.value = ""; find(); views.after.canvas.focus(); }
});

const keyList = [["/", "search; Enter goes on to the next"], ["n N", "next and previous found"], ["Tab", "to the graphs and tables"],
  ["↑ ↓", "along the edges of the graph"], ["← →", "to the neighbours in a row"], ["Enter", "open or close a layer"], ["Home End", "first and last"],
  ["+ − 0", "zoom in, out, whole graph"], ["d", "dark or light"], ["?", "this list"], ["Esc", "close"]];
const keys = document.getElementById("keys");
keys.append(el("h2", {}, "Keys"), el("table", {}, el("tbody", {}, keyList.map(([key, text]) => el("tr", {}, el("td", {}, key.split(" ").map((k) => [el("kbd", {}, k), " "])), el("td", {}, text))))),
  el("form", { method: "dialog" }, el("button", {}, "Close")));

const theme = document.getElementById("theme"), prefers = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;
function setTheme() {
  const dark = chosenTheme === null ? prefers.matches : chosenTheme;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  theme.textContent = dark ? "Light" : "Dark";
}
function toggleTheme() { chosenTheme = !isDark(); setTheme(); build(); }
prefers.addEventListener("change", () => { if (chosenTheme === null) { setTheme(); build(); } });
theme.addEventListener("click", toggleTheme);
document.getElementById("help").addEventListener("click", () => keys.showModal());
document.addEventListener("keydown", (e) => {
  if (keys.open || e.target.matches("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) return;
  const act = { "/": () => search.focus(), "?": () => keys.showModal(), d: toggleTheme, n: () => nextHit(1), N: () => nextHit(-1) }[e.key];
  if (act) { e.preventDefault(); act(); }
});

function build() {
  const at = scrollY, selected = selectedLayer;
  main.replaceChildren();
  document.getElementById("sections").replaceChildren();
  summary();
  graphs();
  timesSection();
  memorySection();
  precisionSection();
  tacticsSection();
  errorsSection();
  if (layers.length) {
    if (selected >= 0) selectLayer(selected);
    else document.getElementById("details").append(note("Select a layer or a node to see what it computes, how, and why."));
  }
  scrollTo(0, at);
}
document.title = data.title + " · Camshaft";
document.getElementById("title").textContent = data.title;
setTheme();
build();
