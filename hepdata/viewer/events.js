// Events: the JSON of #content enters (columns, target, events as deflated binary columns), typed arrays, positions
// and colours leave. Filters and selection only change colours.
"use strict";
const $ = (id) => document.getElementById(id);
const content = JSON.parse($("content").textContent);
const {columns: about, target, level} = content;
const TYPES = {float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array};
const FAINT = [201, 206, 214];
const SHADES = {score: [[159, 179, 200], [242, 193, 78], [209, 73, 91]],
  value: [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]};
const PLANE_MARGIN = {left: 46, right: 12, top: 40, bottom: 34};

function fail(message) { $("status").textContent = message; $("status").className = "failed"; }

const state = {index: 0, mode: "plane", panes: 1, colors: [], filter: {}, selected: null, hovered: null,
  plane: null, orbit: null, event: null, shown: null};

// ---- Events ------------------------------------------------------------------------------------------------
async function decode(entry) {
  const packed = Uint8Array.from(atob(entry.data), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const columns = {};
  for (const [name, kind, begin] of entry.layout) columns[name] = new TYPES[kind](buffer, begin, entry.n);
  return {...entry, data: null, columns, keys: {}};
}

// Group of every point in the column `name`: 0 for points in no group, else 1, 2, … by first appearance.
function groupsOf(event, name) {
  if (event.keys[name]) return event.keys[name];
  const values = event.columns[name], number = new Map(), key = new Uint32Array(event.n);
  for (let i = 0; i < event.n; i++) {
    const value = values[i];
    if (name === "track" ? value < 0 : value <= 0) continue;
    if (!number.has(value)) number.set(value, number.size + 1);
    key[i] = number.get(value);
  }
  return (event.keys[name] = {key, values: [null, ...number.keys()]});
}

const isGroup = (name) => name === "track" || name === "track_particle" ||
  (target !== null && target.objective === "pairs" && name === target.label);
const isInt64 = (values) => values instanceof BigInt64Array || values instanceof BigUint64Array;

function positions(event) {
  const c = event.columns, n = event.n, out = new Float32Array(3 * n);
  const pt = target && target.pt && c[target.pt];
  const inSpace = c.r && c.z;
  for (let i = 0; i < n; i++) {
    if (state.mode === "plane") { out[3 * i] = c.eta[i]; out[3 * i + 1] = c.phi[i]; }
    else if (inSpace) {
      out[3 * i] = c.r[i] * Math.cos(c.phi[i]); out[3 * i + 1] = c.r[i] * Math.sin(c.phi[i]); out[3 * i + 2] = c.z[i];
    } else {  // particles: η, φ, and pT upwards
      out[3 * i] = c.eta[i]; out[3 * i + 1] = pt ? Math.log10(Math.max(pt[i], 0.01)) + 2 : 0; out[3 * i + 2] = c.phi[i];
    }
  }
  return out;
}

// ---- Colours -----------------------------------------------------------------------------------------------
function hashColor(value) {  // equal for equal groups, whatever else the event has
  const mixed = Number((BigInt.asUintN(64, BigInt(value)) * 0x9E3779B97F4A7C15n & 0xFFFFFFFFFFFFFFFFn) >> 40n);
  const h = 6 * ((mixed * 0.618033988749895) % 1), v = 0.62 + 0.15 * (mixed % 3), s = 0.85;
  const part = (k) => { const t = (k + h) % 6; return Math.round(255 * (v - v * s * Math.max(0, Math.min(t, 4 - t, 1)))); };
  return [part(5), part(3), part(1)];
}

function shade(shades, t) {
  const x = Math.max(0, Math.min(1, t)) * (shades.length - 1), i = Math.min(Math.floor(x), shades.length - 2), f = x - i;
  return shades[i].map((v, k) => Math.round(v + f * (shades[i + 1][k] - v)));
}

function rangeOf(event, name) {
  if (name === "score" || event.columns[name] instanceof Uint8Array) return [0, 1];
  const sample = [], values = event.columns[name], step = Math.max(1, Math.floor(event.n / 5000));
  for (let i = 0; i < event.n; i += step) { const v = Number(values[i]); if (Number.isFinite(v)) sample.push(v); }
  sample.sort((a, b) => a - b);
  const low = sample[Math.floor(0.01 * (sample.length - 1))] ?? 0, high = sample[Math.ceil(0.99 * (sample.length - 1))] ?? 1;
  return low === high ? [low, low + 1] : [low, high];
}

function colorsOf(pane) {
  const event = state.event, name = state.colors[pane], out = new Uint8Array(4 * event.n), values = event.columns[name];
  let color;
  if (isGroup(name)) {
    const {key, values: names} = groupsOf(event, name), palette = names.map((v) => v === null ? FAINT : hashColor(v));
    color = (i) => palette[key[i]];
  } else {
    const [low, high] = rangeOf(event, name), two = name === "score" || values instanceof Uint8Array;
    const palette = Array.from({length: 256}, (_, k) => shade(two ? SHADES.score : SHADES.value, k / 255));
    color = (i) => { const v = Number(values[i]); return Number.isNaN(v) ? FAINT : palette[Math.max(0, Math.min(255, Math.round(255 * (v - low) / (high - low))))]; };
  }
  for (let i = 0; i < event.n; i++) {
    const rgb = color(i), isChosen = state.selected && state.selected.members.has(i);
    out[4 * i] = rgb[0]; out[4 * i + 1] = rgb[1]; out[4 * i + 2] = rgb[2];
    out[4 * i + 3] = !state.shown[i] ? 0 : state.selected && !isChosen ? 28 : rgb === FAINT ? 150 : 235;
  }
  return out;
}

function applyFilter() {
  const c = state.event.columns, f = state.filter, n = state.event.n, shown = new Uint8Array(n).fill(1);
  const keep = (values, low, high) => { if (values) for (let i = 0; i < n; i++) if (values[i] < low || values[i] > high) shown[i] = 0; };
  if (target && target.pt) keep(c[target.pt], f.ptMin ?? -Infinity, f.ptMax ?? Infinity);
  if (level) keep(c[level], f.levelMin ?? -Infinity, f.levelMax ?? Infinity);
  if (f.only) keep(c[target.selection], 1, 1);
  state.shown = shown;
}
