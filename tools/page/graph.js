// A graph on a canvas: zoom, pan, selection by mouse and by keys. Only what is in view is drawn, and text only where it
// can be read, so that thousands of boxes move smoothly.

const boxWidth = 190, rowHeight = 17, headHeight = 40;

class GraphView {
  // `boxes`: [{label, detail, rows (text of each line when opened), faint}]; `on`: {select(index), open(index)}.
  constructor(canvas, boxes, edges, paint, on) {
    Object.assign(this, { canvas, boxes, edges, paint, on, selected: -1, marked: new Set(), opened: new Set() });
    this.scale = 1;
    this.left = this.top = 0;
    this.arrange();
    this.listen();
    new ResizeObserver(() => { this.fitted ? this.draw() : this.begin(); }).observe(canvas);
  }

  height(i) { return this.opened.has(i) ? headHeight + 4 + rowHeight * this.boxes[i].rows.length : headHeight; }
  arrange() {
    this.placed = layout(this.boxes.map((_, i) => ({ width: boxWidth, height: this.height(i) })), this.edges);
    const { x, y } = this.placed;
    this.area = { left: 0, right: 0, top: 0, bottom: 0 };
    this.boxes.forEach((_, i) => {
      this.area.left = Math.min(this.area.left, x[i] - boxWidth / 2);
      this.area.right = Math.max(this.area.right, x[i] + boxWidth / 2);
      this.area.top = Math.min(this.area.top, y[i] - this.height(i) / 2);
      this.area.bottom = Math.max(this.area.bottom, y[i] + this.height(i) / 2);
    });
  }

  size() { return { width: this.canvas.clientWidth, height: this.canvas.clientHeight }; }
  // All of it where names stay legible; else what is on top, but for constants and what else is in no layer.
  begin() {
    const { width, height } = this.size();
    if (!width) return;
    this.fitted = true;
    this.fit();
    if (this.scale < 0.6) {
      this.scale = Math.min(1, Math.max(0.6, (width - 30) / (this.area.right - this.area.left)));
      const { x, y, rank } = this.placed, every = this.boxes.map((_, i) => i);
      const solid = every.filter((i) => !this.boxes[i].faint);
      const first = (solid.length ? solid : every).reduce((a, b) => (rank[b] < rank[a] ? b : a), solid[0] ?? 0);
      this.left = (x[first] ?? 0) - width / this.scale / 2;
      this.top = (y[first] ?? 0) - this.height(first) / 2 - 20 / this.scale;
    }
    this.draw();
  }
  fit() {
    const { width, height } = this.size(), margin = 20;
    const wide = this.area.right - this.area.left || 1, high = this.area.bottom - this.area.top || 1;
    this.scale = Math.min(1.4, (width - 2 * margin) / wide, (height - 2 * margin) / high);
    this.left = (this.area.left + this.area.right) / 2 - width / this.scale / 2;
    this.top = high * this.scale < height / 2 ? -margin / this.scale
                                              : (this.area.top + this.area.bottom) / 2 - height / this.scale / 2;
    this.draw();
  }
  zoom(factor, px = this.size().width / 2, py = this.size().height / 2) {
    const scale = Math.min(3, Math.max(0.004, this.scale * factor));
    this.left += px / this.scale - px / scale;
    this.top += py / this.scale - py / scale;
    this.scale = scale;
    this.draw();
  }
  // Brings a box into view; `near`: only as far as needed.
  show(i, near) {
    if (i < 0 || i >= this.boxes.length) return;
    const { width, height } = this.size(), x = this.placed.x[i], y = this.placed.y[i];
    if (this.scale < 0.5) this.scale = 0.8;
    const px = (x - this.left) * this.scale, py = (y - this.top) * this.scale;
    if (!near || px < 110 || px > width - 110 || py < 60 || py > height - 60) {
      this.left = x - width / this.scale / 2;
      this.top = y - height / this.scale / 2;
    }
    this.draw();
  }
  select(i, marked = new Set()) {
    this.selected = i;
    this.marked = marked;
    this.draw();
  }
  open(indices, isOpen) {
    const anchor = this.selected >= 0 ? this.selected : this.placed.ranks[0]?.[0];
    const before = anchor === undefined ? null : [this.placed.x[anchor], this.placed.y[anchor]];
    for (const i of indices) if (isOpen && this.boxes[i].rows.length) this.opened.add(i); else this.opened.delete(i);
    this.arrange();
    if (before) { this.left += this.placed.x[anchor] - before[0]; this.top += this.placed.y[anchor] - before[1]; }
    this.draw();
  }

  at(px, py) {
    const x = this.left + px / this.scale, y = this.top + py / this.scale;
    return this.boxes.findIndex((_, i) => Math.abs(x - this.placed.x[i]) <= boxWidth / 2 &&
                                          Math.abs(y - this.placed.y[i]) <= this.height(i) / 2);
  }
  listen() {
    let from = null, moved = false;
    this.canvas.addEventListener("pointerdown", (e) => {
      from = { x: e.clientX, y: e.clientY };
      moved = false;
      this.canvas.setPointerCapture(e.pointerId);
    });
    this.canvas.addEventListener("pointermove", (e) => {
      if (!from) { this.canvas.title = this.boxes[this.at(e.offsetX, e.offsetY)]?.label || ""; return; }
      const dx = e.clientX - from.x, dy = e.clientY - from.y;
      if (!moved && Math.hypot(dx, dy) < 4) return;
      moved = true;
      this.left -= dx / this.scale;
      this.top -= dy / this.scale;
      from = { x: e.clientX, y: e.clientY };
      this.draw();
    });
    this.canvas.addEventListener("pointerup", (e) => {
      if (from && !moved) { const i = this.at(e.offsetX, e.offsetY); if (i >= 0) this.on.select(i); }
      from = null;
    });
    this.canvas.addEventListener("dblclick", (e) => {
      const i = this.at(e.offsetX, e.offsetY);
      if (i >= 0) this.open([i], !this.opened.has(i));
    });
    this.canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0016)), e.offsetX, e.offsetY);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (e) => { if (this.key(e)) e.preventDefault(); });
    for (const change of ["focus", "blur"]) this.canvas.addEventListener(change, () => this.draw());
  }
  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return false;
    const go = (i) => { if (i !== undefined) { this.on.select(i); this.show(i, true); } };
    const { before, next, ranks, rank, x } = this.placed, at = this.selected;
    const nearest = (list) => [...list].sort((a, b) => Math.abs(x[a] - x[at]) - Math.abs(x[b] - x[at]))[0];
    const row = at >= 0 ? ranks[rank[at]] : [];
    switch (e.key) {
      case "ArrowUp": go(at < 0 ? ranks[0]?.[0] : nearest(before[at])); return true;
      case "ArrowDown": go(at < 0 ? ranks[0]?.[0] : nearest(next[at])); return true;
      case "ArrowLeft": go(row[row.indexOf(at) - 1]); return true;
      case "ArrowRight": go(row[row.indexOf(at) + 1]); return true;
      case "Home": go(ranks[0]?.[0]); return true;
      case "End": go(ranks.at(-1)?.[0]); return true;
      case "Enter": case " ": if (at >= 0) this.open([at], !this.opened.has(at)); return true;
      case "+": case "=": this.zoom(1.25); return true;
      case "-": this.zoom(0.8); return true;
      case "0": this.fit(); return true;
    }
    return false;
  }

  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.drawNow(); });
  }
  drawNow() {
    const { width, height } = this.size(), ratio = window.devicePixelRatio || 1;
    if (!width) return;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const style = getComputedStyle(document.documentElement), css = (name) => style.getPropertyValue(name).trim();
    const c = this.canvas.getContext("2d");
    c.scale(ratio * this.scale, ratio * this.scale);
    c.translate(-this.left, -this.top);
    const seen = { left: this.left, right: this.left + width / this.scale,
                   top: this.top, bottom: this.top + height / this.scale };
    const colours = { edge: css("--edge"), accent: css("--accent"), text: css("--text"), soft: css("--soft"),
                      line: css("--line"), mark: css("--bound") };
    this.drawEdges(c, seen, colours);
    this.boxes.forEach((box, i) => this.drawBox(c, seen, colours, box, i));
  }
  isOut(path, seen) {
    let left = Infinity, right = -Infinity, top = Infinity, bottom = -Infinity;
    for (const { x, y } of path) {
      left = Math.min(left, x); right = Math.max(right, x);
      top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    return right < seen.left || left > seen.right || bottom < seen.top || top > seen.bottom;
  }
  drawEdges(c, seen, colours) {
    for (const path of this.placed.paths) {
      const first = path[0], last = path.at(-1);
      if (this.isOut(path, seen)) continue;
      const isNear = this.selected >= 0 && (first.box === this.selected || last.box === this.selected);
      c.strokeStyle = isNear ? colours.accent : colours.edge;
      c.lineWidth = (isNear ? 2 : 1) / Math.min(1, Math.max(this.scale, 0.25));
      c.beginPath();
      let y = first.y + this.height(first.box) / 2;
      c.moveTo(first.x, y);
      for (let i = 1; i < path.length; ++i) {
        const end = path[i].box >= 0 ? path[i].y - this.height(path[i].box) / 2 : path[i].y, middle = (y + end) / 2;
        c.bezierCurveTo(path[i - 1].x, middle, path[i].x, middle, path[i].x, end);
        y = end;
      }
      c.stroke();
    }
  }
  drawBox(c, seen, colours, box, i) {
    const high = this.height(i), x = this.placed.x[i] - boxWidth / 2, y = this.placed.y[i] - high / 2;
    if (x > seen.right || x + boxWidth < seen.left || y > seen.bottom || y + high < seen.top) return;
    c.fillStyle = this.paint(i);
    c.beginPath();
    c.roundRect(x, y, boxWidth, high, 7);
    c.globalAlpha = box.faint ? 0.35 : 1;
    c.fill();
    c.globalAlpha = 1;
    const isMarked = this.marked.has(i), isSelected = i === this.selected;
    c.lineWidth = (isSelected ? 3 : isMarked ? 2.5 : 1) / Math.min(1, Math.max(this.scale, 0.1));
    c.strokeStyle = isSelected ? colours.accent : isMarked ? colours.mark : colours.edge;
    c.setLineDash(box.faint ? [4, 3] : []);
    c.stroke();
    c.setLineDash([]);
    if (this.scale < 0.35) return;
    const write = (text, row, font, colour) => {
      c.font = font;
      c.fillStyle = colour;
      let shown = text;
      while (shown.length > 4 && c.measureText(shown).width > boxWidth - 16)
        shown = shown.slice(0, Math.max(3, Math.floor(shown.length * 0.9) - 1)).replace(/…$/, "") + "…";
      c.fillText(shown, x + 8, y + row);
    };
    write(box.label, 17, "600 12px system-ui, sans-serif", colours.text);
    write(box.detail, 32, "11px system-ui, sans-serif", colours.text);
    if (this.opened.has(i)) {
      c.fillStyle = colours.edge;
      c.fillRect(x + 8, y + headHeight - 1, boxWidth - 16, 1);
      box.rows.forEach((row, r) => write(row, headHeight + 13 + r * rowHeight, "11px system-ui, sans-serif", colours.text));
    }
  }
}
