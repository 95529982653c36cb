// A layered drawing of a directed graph (Sugiyama, Tagawa and Toda 1981): ranks by longest paths, orders by medians of
// neighbours, places by isotonic regression, which moves the boxes of a rank as little as keeps them apart.

function successorsOf(count, edges) {
  const next = Array.from({ length: count }, () => []), before = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) { next[from].push(to); before[to].push(from); }
  return { next, before };
}

// Each node below all it reads; those that read nothing right above the first that reads them. Of cycles, which broken
// models may have, some edges point upwards.
function ranksOf(count, { next, before }) {
  const rank = new Array(count).fill(0), waiting = before.map((list) => list.length), ready = [];
  for (let v = 0; v < count; ++v) if (!waiting[v]) ready.push(v);
  for (let i = 0; i < ready.length; ++i)
    for (const to of next[ready[i]]) {
      rank[to] = Math.max(rank[to], rank[ready[i]] + 1);
      if (--waiting[to] === 0) ready.push(to);
    }
  for (const v of ready)
    if (!before[v].length && next[v].length) rank[v] = Math.max(0, Math.min(...next[v].map((to) => rank[to])) - 1);
  return rank;
}

const longest = 400;  // ranks that an edge is bent over; longer ones are drawn straight
function withBends(count, edges, rank) {
  const ranks = [], place = (v, r) => { (ranks[r] = ranks[r] || []).push(v); };
  for (let v = 0; v < count; ++v) place(v, rank[v]);
  for (let r = 0; r < ranks.length; ++r) ranks[r] = ranks[r] || [];
  const paths = [], short = [];
  let next = count;
  for (const [from, to] of edges) {
    const path = [from];
    if (rank[to] - rank[from] <= longest)
      for (let r = rank[from] + 1; r < rank[to]; ++r) { place(next, r); path.push(next++); }
    path.push(to);
    paths.push(path);
    if (rank[to] - rank[from] <= longest) for (let i = 1; i < path.length; ++i) short.push([path[i - 1], path[i]]);
  }
  return { ranks, paths, total: next, short };
}

function order(ranks, { next, before }, total) {
  const place = new Float64Array(total);
  const number = (list) => list.forEach((v, i) => { place[v] = i; });
  ranks.forEach(number);
  const median = (list) => {
    const at = list.map((v) => place[v]).sort((a, b) => a - b), m = at.length >> 1;
    return at.length % 2 ? at[m] : (at[m - 1] + at[m]) / 2;
  };
  for (let sweep = 0; sweep < 8; ++sweep) {
    const neighbours = sweep % 2 ? next : before;
    for (const list of sweep % 2 ? [...ranks].reverse() : ranks) {
      const key = new Map(list.map((v) => [v, neighbours[v].length ? median(neighbours[v]) : place[v]]));
      list.sort((a, b) => key.get(a) - key.get(b) || place[a] - place[b]);
      number(list);
    }
  }
}

// The places nearest to `wanted` in which each box keeps its distance: pools of neighbours that violate it move as one.
function spread(wanted, widths, gap) {
  const offset = [0];
  for (let i = 1; i < wanted.length; ++i) offset.push(offset[i - 1] + (widths[i - 1] + widths[i]) / 2 + gap);
  const pools = [];
  wanted.forEach((w, i) => {
    let pool = { sum: w - offset[i], count: 1 };
    while (pools.length && pools.at(-1).sum / pools.at(-1).count > pool.sum / pool.count) {
      const other = pools.pop();
      pool = { sum: pool.sum + other.sum, count: pool.count + other.count };
    }
    pools.push(pool);
  });
  return pools.flatMap((p) => new Array(p.count).fill(p.sum / p.count)).map((x, i) => x + offset[i]);
}

const deep = 150;  // ranks; deeper drawings would be threads when they are seen as a whole
// Puts what is deep into columns, about as many as make it as wide as high. They end where the drawing is narrow.
function fold(ranks, x, y, width, height) {
  const spanOf = (list) => Math.max(...list.map((v) => x[v] + width(v) / 2)) - Math.min(...list.map((v) => x[v] - width(v) / 2));
  const usual = ranks.map(spanOf).sort((a, b) => a - b)[Math.floor(ranks.length * 0.95)] + 120;
  const columns = Math.max(1, Math.round(Math.sqrt((0.7 * height) / usual))), step = Math.ceil(ranks.length / columns);
  let left = 0, first = 0;
  while (first < ranks.length) {
    let end = Math.min(ranks.length, first + step);
    if (end < ranks.length)
      for (let r = end - Math.floor(step / 8); r < end; ++r) if (ranks[r].length < ranks[end].length) end = r;
    const part = ranks.slice(first, end).flat();
    const from = Math.min(...part.map((v) => x[v] - width(v) / 2)), to = Math.max(...part.map((v) => x[v] + width(v) / 2));
    const top = Math.min(...ranks[first].map((v) => y[v]));
    for (const v of part) { x[v] += left - from; y[v] -= top; }
    left += to - from + 120;
    first = end;
  }
}

// `sizes`: [{width, height}]. Gives the centres of the boxes, and for each edge the points it passes.
function layout(sizes, edges) {
  const count = sizes.length, graph = successorsOf(count, edges), rank = ranksOf(count, graph);
  const { ranks, paths, total, short } = withBends(count, edges, rank);
  const bent = successorsOf(total, short);
  order(ranks, bent, total);
  const width = (v) => v < count ? sizes[v].width : 6, x = new Float64Array(total), y = new Float64Array(total);
  for (const list of ranks) {
    const at = spread(list.map(() => 0), list.map(width), 22);
    const middle = at.length ? (at[0] + at.at(-1)) / 2 : 0;
    list.forEach((v, i) => { x[v] = at[i] - middle; });
  }
  for (let sweep = 0; sweep < 10; ++sweep)
    for (const list of sweep % 2 ? [...ranks].reverse() : ranks) {
      const around = (v) => sweep > 7 ? [...bent.next[v], ...bent.before[v]] : (sweep % 2 ? bent.next : bent.before)[v];
      const wanted = list.map((v) => {
        const by = around(v);
        return by.length ? by.reduce((sum, n) => sum + x[n], 0) / by.length : x[v];
      });
      spread(wanted, list.map(width), 22).forEach((at, i) => { x[list[i]] = at; });
    }
  let top = 0;
  for (const list of ranks) {
    const height = Math.max(0, ...list.map((v) => v < count ? sizes[v].height : 0));
    for (const v of list) y[v] = top + height / 2;
    top += height + 34;
  }
  if (ranks.length > deep) fold(ranks, x, y, width, top);
  return { x, y, rank, ranks: ranks.map((list) => list.filter((v) => v < count)), ...graph,
           paths: paths.map((path) => path.map((v) => ({ x: x[v], y: y[v], box: v < count ? v : -1 }))) };
}
