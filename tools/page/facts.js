// What the data says, joined: layers with their times and bounds, and the nodes of the model with their layers.

const data = JSON.parse(document.getElementById("data").textContent);
const engine = data.inspection;
const withoutType = (text) => text.slice(0, Math.max(0, text.lastIndexOf(": "))) || text;

// The fastest rates that any layer reached. Engines for GPUs bring limits of the device instead.
function roofOf(times) {
  const best = (work) => Math.max(0, ...times.filter((t) => t.ms > 0 && work(t)).map((t) => work(t) / t.ms));
  return { flops: best((t) => t.flops || 0), bytes: best((t) => (t.constant_bytes || 0) + (t.activation_bytes || 0)) };
}

function boundOf(t, roof) {
  if (t.limit_ms) return { ms: t.limit_ms, by: t.limit };
  const arithmetic = roof.flops ? (t.flops || 0) / roof.flops : 0;
  const memory = roof.bytes ? ((t.constant_bytes || 0) + (t.activation_bytes || 0)) / roof.bytes : 0;
  if (!arithmetic && !memory) return null;
  return arithmetic > memory ? { ms: arithmetic, by: "arithmetic" } : { ms: memory, by: "memory" };
}

const times = data.measured ? data.measured.layers : [];
const hasLimits = times.some((t) => t.limit_ms);
const roof = roofOf(times);
const layers = engine.layers.map((layer, index) => {
  const t = times[index];
  return { ...layer, index, why: data.why[index], time: t || null, ms: t ? t.ms : null,
           percent: t ? t.percent : null, bound: t && !t.at_binding ? boundOf(t, roof) : null, nodes: [] };
});
const slowest = Math.max(1e-12, ...layers.map((l) => l.ms || 0));

const nodes = data.model ? data.model.nodes.map((node, index) => ({ ...node, index, layers: [] })) : [];
{
  const named = new Map();
  for (const node of nodes) named.set(node.name, [...(named.get(node.name) || []), node]);
  for (const layer of layers)
    for (const source of layer.sources)
      for (const node of named.get(source) || []) { node.layers.push(layer); layer.nodes.push(node); }
}

// Pairs [from, to] of indices.
const layerEdges = layers.flatMap((layer) => layer.reads.map((from) => [from, layer.index]));
const nodeEdges = [];
{
  const producer = new Map();
  for (const node of nodes) for (const name of node.outputs) if (name) producer.set(name, node.index);
  for (const node of nodes)
    for (const from of new Set(node.inputs.map((name) => producer.get(name))))
      if (from !== undefined && from !== node.index) nodeEdges.push([from, node.index]);
}
