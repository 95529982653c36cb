"use strict";
// Elements and numbers as text. Names come from models: they only ever become text nodes and attributes.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === false) continue;
    if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity))
    if (child !== null && child !== undefined) node.append(child instanceof Node ? child : String(child));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function digits(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
function time(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms >= 1000) return digits(ms / 1000) + " s";
  if (ms >= 1) return digits(ms) + " ms";
  return ms >= 0.001 ? digits(ms * 1e3) + " µs" : digits(ms * 1e6) + " ns";
}
function scaled(value, unit, step = 1000) {
  const prefixes = ["", "k", "M", "G", "T", "P"];
  let i = 0;
  while (value >= step && i + 1 < prefixes.length) { value /= step; ++i; }
  const prefix = prefixes[i] && step === 1024 ? prefixes[i].toUpperCase() + "i" : prefixes[i];
  return `${i || value % 1 ? digits(value) : value} ${prefix}${unit}`;
}
const bytes = (value) => scaled(value, "B", 1024);
const percent = (value) => (value >= 10 ? value.toFixed(0) : value.toFixed(1)) + " %";
const small = (value) => value === null || value === undefined ? "not finite" : value === 0 ? "0" : value.toExponential(1);
const many = (count, word) => count + " " + word + (count === 1 ? "" : "s");

// The same colour for the same word, in both themes.
function colour(word) {
  let hash = 2166136261;
  for (const c of word) hash = Math.imul(hash ^ c.codePointAt(0), 16777619);
  return `hsl(${(hash >>> 0) % 360} ${isDark() ? "34% 34%" : "48% 79%"})`;
}
// From calm to hot.
const heat = (part) => `hsl(${Math.round(205 - 190 * Math.sqrt(Math.min(1, part)))} 65% ${isDark() ? 36 : 74}%)`;
const isDark = () => document.documentElement.dataset.theme === "dark";
