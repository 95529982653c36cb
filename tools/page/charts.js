// Pictures of memory and precisions.

// At each step the bytes that belong to some buffer: what is computed in place of another shares its bytes.
function aliveBytes(buffers, steps) {
  const at = Array.from({ length: steps }, () => []);
  for (const b of buffers) for (let s = b.first_step; s <= Math.min(b.last_step, steps - 1); ++s) at[s].push(b);
  return at.map((list) => {
    let end = 0, sum = 0;
    for (const b of list.sort((p, q) => p.offset - q.offset)) {
      sum += Math.max(0, b.offset + b.bytes - Math.max(end, b.offset));
      end = Math.max(end, b.offset + b.bytes);
    }
    return sum;
  });
}

function memoryChart(onLayer) {
  const devices = [...new Set(data.arena.map((b) => b.device))];
  const parts = [];
  for (const device of devices) {
    const buffers = data.arena.filter((b) => b.device === device), steps = Math.max(1, layers.length);
    const peak = Math.max(1, ...buffers.map((b) => b.offset + b.bytes));
    const width = 1000, height = 300, left = 70, top = 8, bottom = 24;
    const x = (step) => left + (step / steps) * (width - left - 8);
    const y = (at) => top + (1 - at / peak) * (height - top - bottom);
    const picture = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `Memory of ${device} over time: ${many(buffers.length, "buffer")}, ${bytes(peak)} at most` });
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      picture.append(shape("line", { x1: left, x2: width - 8, y1: y(peak * part), y2: y(peak * part), stroke: "var(--line)" }));
      picture.append(shape("text", { x: left - 6, y: y(peak * part) + 4, "text-anchor": "end" }, bytes(peak * part)));
    }
    for (const b of buffers) {
      const last = Math.min(b.last_step, steps - 1), first = Math.min(b.first_step, last);
      picture.append(shape("rect", {
        x: x(first), width: Math.max(0.5, x(last + 1) - x(first)), y: y(b.offset + b.bytes),
        height: Math.max(0.5, y(b.offset) - y(b.offset + b.bytes)), fill: colour(layers[first]?.op || b.name),
        stroke: "var(--edge)", "stroke-width": buffers.length > 600 ? 0.1 : 0.4, "fill-opacity": b.workspace ? 0.45 : 1,
        onclick: () => onLayer(first) },
        shape("title", {}, `${b.name}${b.workspace ? " (workspace)" : ""}: ${bytes(b.bytes)} at ${bytes(b.offset)}, layers ${first} to ${last}`)));
    }
    const alive = aliveBytes(buffers, steps);
    picture.append(shape("polyline", { fill: "none", stroke: "var(--bound)", "stroke-width": 1.5, "vector-effect": "non-scaling-stroke",
      points: alive.flatMap((a, s) => [`${x(s)},${y(a)}`, `${x(s + 1)},${y(a)}`]).join(" ") }));
    const mark = shape("line", { y1: top, y2: height - bottom, stroke: "var(--accent)", "stroke-width": 2,
      "vector-effect": "non-scaling-stroke", visibility: "hidden", class: "now" });
    mark.place = (step) => {
      for (const end of ["x1", "x2"]) mark.setAttribute(end, x(step + 0.5));
      mark.setAttribute("visibility", step < 0 ? "hidden" : "visible");
    };
    for (const [step, anchor] of [[0, "start"], [Math.floor(steps / 2), "middle"], [steps - 1, "end"]])
      picture.append(shape("text", { x: x(step + 0.5), y: height - 6, "text-anchor": anchor }, "layer " + step));
    picture.append(mark);
    parts.push({ device, picture, mark, peak, buffers: buffers.length });
  }
  return parts;
}

// A bar of parts: [{name, value}].
function stack(parts, text) {
  const total = parts.reduce((sum, p) => sum + p.value, 0) || 1;
  return el("div", {},
    el("div", { class: "stack", role: "img", "aria-label": parts.map((p) => `${p.name}: ${text(p.value)}`).join(", ") },
      parts.map((p) => el("i", { style: { width: (100 * p.value) / total + "%", background: colour(p.name) },
                                 title: `${p.name}: ${text(p.value)}` }))),
    parts.map((p) => el("span", { class: "key" }, el("i", { style: { background: colour(p.name) } }), `${p.name}: ${text(p.value)}`)));
}

function sumsBy(key, value) {
  const sums = new Map();
  for (const layer of layers) sums.set(key(layer), (sums.get(key(layer)) || 0) + value(layer));
  return [...sums].map(([name, sum]) => ({ name: name || "none", value: sum })).filter((p) => p.value > 0)
                  .sort((a, b) => b.value - a.value);
}

// A bar of a part of `most`, with a mark where the bound is.
const bar = (part, mark, isBad) => el("div", { class: "bar" },
  el("i", { class: isBad ? "bad" : undefined, style: { width: 100 * Math.min(1, part) + "%" } }),
  mark === undefined ? null : el("u", { style: { left: `calc(${100 * Math.min(1, mark)}% - 1px)` } }));
