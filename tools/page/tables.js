// Tables that sort by their columns and show the first rows until all are asked for.

const shownFirst = 100;

// `columns`: [{title, key (what to sort by), cell(row), number}]; `onRow(row)` where rows can be chosen.
function table(name, rows, columns, { sort = -1, down = true, onRow } = {}) {
  const state = { sort, down, all: false };
  const body = el("tbody"), more = el("button", { onclick: () => { state.all = true; refill(); } });
  const heads = columns.map((column, c) => el("th", { scope: "col", class: column.number ? "number" : undefined },
    el("button", { onclick: () => {
      state.down = state.sort === c ? !state.down : Boolean(column.number);
      state.sort = c;
      refill();
    } }, column.title)));
  let marked = null;
  const lines = new Map();
  const lineOf = (row) => {
    if (!lines.has(row)) {
      const choose = onRow && (() => onRow(row));
      lines.set(row, el("tr", { tabindex: onRow ? 0 : undefined, onclick: choose || (() => {}),
                                onkeydown: (e) => { if (choose && e.key === "Enter") choose(); } },
        columns.map((column) => el("td", { class: column.number ? "number" : column.isName ? "name" : undefined },
                                   column.cell(row)))));
    }
    return lines.get(row);
  };
  function refill() {
    const sorted = [...rows];
    if (state.sort >= 0) {
      const key = columns[state.sort].key, sign = state.down ? -1 : 1;
      const rank = (row) => { const k = key(row); return k === null || k === undefined ? -Infinity : k; };
      sorted.sort((a, b) => { const p = rank(a), q = rank(b); return p < q ? -sign : p > q ? sign : 0; });
    }
    heads.forEach((head, c) => {
      if (c === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const shown = state.all ? sorted : sorted.slice(0, shownFirst);
    if (marked && !shown.includes(marked)) shown.push(marked);
    body.replaceChildren(...shown.map(lineOf));
    more.textContent = `Show all ${rows.length}`;
    more.hidden = state.all || rows.length <= shownFirst;
  }
  refill();
  const node = el("div", {}, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
                                el("table", {}, el("thead", {}, el("tr", {}, heads)), body)), more);
  node.mark = (row) => {
    if (marked) lineOf(marked).removeAttribute("aria-selected");
    marked = row || null;
    if (!marked) return;
    refill();
    const line = lineOf(marked), area = node.firstChild;
    line.setAttribute("aria-selected", "true");
    area.scrollTop = line.offsetTop - area.clientHeight / 2;
  };
  return node;
}

function layersTable(onLayer) {
  const most = Math.max(slowest, ...layers.map((l) => l.bound?.ms || 0));
  const columns = [
    { title: "#", number: true, key: (l) => l.index, cell: (l) => l.index },
    { title: "Layer", isName: true, key: (l) => l.name, cell: (l) => l.name },
    { title: "Kind", key: (l) => l.op, cell: (l) => l.op },
    { title: "Tactic", key: (l) => l.tactic, cell: (l) => l.tactic },
    { title: "Type", key: (l) => l.precision, cell: (l) => l.precision },
  ];
  if (data.measured) columns.push(
    { title: "Time", number: true, key: (l) => l.ms, cell: (l) => l.at_binding ? "once" : time(l.ms) },
    { title: "%", number: true, key: (l) => l.percent, cell: (l) => l.at_binding ? "" : l.percent.toFixed(1) },
    { title: "Time and bound", key: (l) => l.ms, cell: (l) => l.at_binding ? "" : bar(l.ms / most, l.bound ? l.bound.ms / most : undefined) },
    { title: "Of the bound", number: true, key: (l) => l.bound && l.ms ? l.bound.ms / l.ms : null,
      cell: (l) => l.bound && l.ms ? `${percent((100 * l.bound.ms) / l.ms)} (${l.bound.by})` : "" },
    { title: "GFLOP/s", number: true, key: (l) => l.time.flops ? l.time.flops / l.ms : null,
      cell: (l) => l.time.flops && l.ms ? digits(l.time.flops / l.ms / 1e6) : "" });
  columns.push({ title: "Nodes of the model", isName: true, key: (l) => l.sources.length, cell: (l) => l.sources.join(", ") });
  return table("Layers", layers, columns, { sort: data.measured ? 5 : -1, onRow: (l) => onLayer(l.index) });
}

function tacticsTable(onLayer) {
  const rows = layers.filter((l) => l.tried.length > 1).flatMap((layer) => {
    const cost = (t) => t.measured_ns ?? t.estimated_ns;
    const most = Math.max(1, ...layer.tried.map(cost));
    return layer.tried.map((trial) => ({ layer, trial, part: cost(trial) / most, isChosen: trial.tactic === layer.tactic }));
  });
  if (!rows.length) return null;
  return table("Tactics", rows, [
    { title: "#", number: true, key: (r) => r.layer.index, cell: (r) => r.layer.index },
    { title: "Layer", isName: true, key: (r) => r.layer.name, cell: (r) => r.layer.name },
    { title: "Tactic", key: (r) => r.trial.tactic, cell: (r) => r.isChosen ? el("b", {}, r.trial.tactic) : r.trial.tactic },
    { title: "Measured", number: true, key: (r) => r.trial.measured_ns, cell: (r) => r.trial.measured_ns === null ? "" : time(r.trial.measured_ns / 1e6) },
    { title: "Estimated", number: true, key: (r) => r.trial.estimated_ns, cell: (r) => time(r.trial.estimated_ns / 1e6) },
    { title: "Within its layer", key: (r) => r.part, cell: (r) => bar(r.part) },
    { title: "Why", key: (r) => (r.isChosen ? 0 : 1), cell: (r) => r.isChosen ? "chosen: " + r.layer.why
        : r.trial.refused ? "refused: rounds more than this build may" : r.trial.measured_ns === null ? "not measured" : "" },
  ], { onRow: (r) => onLayer(r.layer.index) });
}

const errorOf = (e) => e.exact ? e.differing : e.relative_error;
function errorsTable(errors) {
  // 1e-9 to 1: errors are compared by their orders of magnitude.
  const part = (value) => value === null ? 1 : value <= 0 ? 0 : Math.max(0.01, Math.min(1, 1 + Math.log10(value) / 9));
  return table("Errors", errors, [
    { title: "Tensor", isName: true, key: (e) => e.output, cell: (e) => e.output },
    { title: "Computed by", isName: true, key: (e) => e.layer || "", cell: (e) => e.layer || "" },
    { title: "Error of its scale", number: true, key: (e) => errorOf(e) ?? Infinity, cell: (e) => e.exact
        ? (e.differing ? percent(100 * e.differing) + " differ" : "equal") : small(e.relative_error) },
    { title: "1e-9 to 1", key: (e) => errorOf(e) ?? Infinity,
      cell: (e) => bar(part(errorOf(e)), e.exact ? undefined : part(data.tolerance), !e.passed) },
    { title: "Largest", number: true, key: (e) => e.max_error ?? Infinity, cell: (e) => small(e.max_error) },
    { title: "Scale", number: true, key: (e) => e.scale ?? Infinity, cell: (e) => e.scale === null ? "" : e.scale.toPrecision(3) },
    { title: "Elements", number: true, key: (e) => e.compared, cell: (e) => e.compared },
  ], { sort: 2 });
}
