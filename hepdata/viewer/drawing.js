"use strict";
// Drawing: one camera for all views, one buffer of positions, one of colours for each view.

// ---- Matrices (column-major) -------------------------------------------------------------------------------
function multiply(a, b) {
  const out = new Float32Array(16);
  for (let i = 0; i < 4; i++) for (let j = 0; j < 4; j++) {
    let sum = 0;
    for (let k = 0; k < 4; k++) sum += a[4 * k + j] * b[4 * i + k];
    out[4 * i + j] = sum;
  }
  return out;
}
function perspective(fov, aspect, near, far) {
  const f = 1 / Math.tan(fov / 2), d = near - far;
  return [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / d, -1, 0, 0, 2 * far * near / d, 0];
}
function orbitFrame({turn, tilt}) {  // right, up, backward: the camera looks at the target from `backward`
  const ct = Math.cos(turn), st = Math.sin(turn), cp = Math.cos(tilt), sp = Math.sin(tilt);
  return [[ct, 0, -st], [-st * sp, cp, -ct * sp], [st * cp, sp, ct * cp]];
}
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

function paneBox(pane) {  // CSS pixels, from the top left
  const w = stage.clientWidth, h = stage.clientHeight;
  if (state.panes === 1) return {x: 0, y: 0, w, h};
  return w > 720 ? {x: pane * w / 2, y: 0, w: w / 2, h} : {x: 0, y: pane * h / 2, w, h: h / 2};
}
function plotBox(pane) {
  const box = paneBox(pane), m = state.mode === "plane" ? PLANE_MARGIN : {left: 0, right: 0, top: 0, bottom: 0};
  return {x: box.x + m.left, y: box.y + m.top, w: Math.max(1, box.w - m.left - m.right), h: Math.max(1, box.h - m.top - m.bottom)};
}
function viewMatrix(pane) {
  const box = plotBox(pane);
  if (state.mode === "plane") {
    const {x, y, halfX, halfY} = state.plane;
    return [1 / halfX, 0, 0, 0, 0, 1 / halfY, 0, 0, 0, 0, 1, 0, -x / halfX, -y / halfY, 0, 1];
  }
  const o = state.orbit, [r, u, b] = orbitFrame(o), eye = o.target.map((t, k) => t + o.distance * b[k]);
  const look = [r[0], u[0], b[0], 0, r[1], u[1], b[1], 0, r[2], u[2], b[2], 0, -dot(r, eye), -dot(u, eye), -dot(b, eye), 1];
  return multiply(perspective(0.7, box.w / box.h, o.distance / 100, o.distance * 20 + o.size * 4), look);
}
function project(matrix, box, x, y, z) {  // CSS pixels, or null behind the camera
  const w = matrix[3] * x + matrix[7] * y + matrix[11] * z + matrix[15];
  if (w <= 0) return null;
  return [box.x + box.w * (0.5 + 0.5 * (matrix[0] * x + matrix[4] * y + matrix[8] * z + matrix[12]) / w),
    box.y + box.h * (0.5 - 0.5 * (matrix[1] * x + matrix[5] * y + matrix[9] * z + matrix[13]) / w)];
}

function resetView() {
  const c = state.event.columns, n = state.event.n;
  if (state.mode === "plane") {
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < n; i++) { const v = c.eta[i]; if (v < low) low = v; if (v > high) high = v; }
    if (!(high > low)) { low = (n ? low : 0) - 1; high = low + 2; }
    state.plane = {x: (low + high) / 2, y: 0, halfX: 0.53 * (high - low), halfY: 1.04 * Math.PI};
  } else {
    const p = state.positions, low = [Infinity, Infinity, Infinity], high = [-Infinity, -Infinity, -Infinity];
    for (let i = 0; i < 3 * n; i++) { const k = i % 3; if (p[i] < low[k]) low[k] = p[i]; if (p[i] > high[k]) high[k] = p[i]; }
    const size = Math.max(...high.map((h, k) => h - low[k]), 1e-3);
    state.orbit = {turn: -0.9, tilt: 0.35, distance: 1.05 * size, size, low, high, target: high.map((h, k) => (h + low[k]) / 2)};
  }
}

// ---- Drawing -----------------------------------------------------------------------------------------------
const stage = $("stage"), canvas = $("points"), axes = $("axes");
let regl;
try {
  regl = createREGL({canvas, attributes: {antialias: true, preserveDrawingBuffer: true}});
} catch (error) {
  fail("This browser has no WebGL: switch hardware acceleration on, or use another browser.");
  throw error;
}
const buffers = {position: regl.buffer({usage: "dynamic", data: []}), size: regl.buffer([]), colors: [0, 1].map(() => regl.buffer({usage: "dynamic", data: []}))};
const blend = {enable: true, func: {srcRGB: "src alpha", srcAlpha: 1, dstRGB: "one minus src alpha", dstAlpha: 1}};
const drawPoints = regl({
  vert: `precision highp float; attribute vec3 position; attribute vec4 color; attribute float size;
    uniform mat4 view; uniform float scale; varying vec4 tint;
    void main() { gl_Position = color.a == 0.0 ? vec4(2.0, 2.0, 2.0, 1.0) : view * vec4(position, 1.0);
      gl_PointSize = scale * size; tint = color / 255.0; }`,
  frag: `precision mediump float; varying vec4 tint;
    void main() { if (length(gl_PointCoord - 0.5) > 0.5) discard; gl_FragColor = tint; }`,
  attributes: {position: regl.prop("position"), color: {buffer: regl.prop("color"), type: "uint8", normalized: false}, size: regl.prop("size")},
  uniforms: {view: regl.prop("view"), scale: regl.prop("scale")},
  viewport: regl.prop("box"), scissor: {enable: true, box: regl.prop("box")},
  blend, depth: {enable: false}, count: regl.prop("count"), primitive: "points",
});

function pixels(box) {  // of WebGL, from the bottom left
  const k = window.devicePixelRatio || 1;
  return {x: Math.round(box.x * k), y: Math.round((stage.clientHeight - box.y - box.h) * k), width: Math.round(box.w * k), height: Math.round(box.h * k)};
}
function draw() {
  const k = window.devicePixelRatio || 1, w = Math.round(stage.clientWidth * k), h = Math.round(stage.clientHeight * k);
  for (const c of [canvas, axes]) if (c.width !== w || c.height !== h) { c.width = w; c.height = h; }
  regl.poll();
  regl.clear({color: [1, 1, 1, 1], depth: 1});
  const n = state.event.n, scale = k * Math.max(2.6, Math.min(6, 260 / Math.sqrt(n + 1)));
  if (n) for (let pane = 0; pane < state.panes; pane++) {
    drawPoints({position: buffers.position, color: buffers.colors[pane], size: buffers.size, view: viewMatrix(pane), scale, box: pixels(plotBox(pane)), count: n});
  }
  const pen = axes.getContext("2d");
  pen.setTransform(k, 0, 0, k, 0, 0);
  pen.clearRect(0, 0, stage.clientWidth, stage.clientHeight);
  for (let pane = 0; pane < state.panes; pane++) { drawAxes(pen, pane); drawSelection(pen, pane); }
}
let asked = false;
function redraw() { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } }

function ticks(low, high) {
  const raw = (high - low) / 6, power = 10 ** Math.floor(Math.log10(raw)), step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
  const found = [];
  for (let t = Math.ceil(low / step); t * step <= high; t++) found.push(+(t * step).toPrecision(12));
  return found;
}
function drawAxes(pen, pane) {
  const box = plotBox(pane);
  pen.font = "12px system-ui, sans-serif"; pen.fillStyle = "#555"; pen.strokeStyle = "#bbb"; pen.lineWidth = 1;
  if (state.mode === "space") return drawFrame(pen, pane, box);
  const {x, y, halfX, halfY} = state.plane;
  pen.strokeRect(box.x, box.y, box.w, box.h);
  pen.textAlign = "center"; pen.textBaseline = "top";
  for (const t of ticks(x - halfX, x + halfX)) pen.fillText(t, box.x + box.w * (0.5 + 0.5 * (t - x) / halfX), box.y + box.h + 3);
  pen.fillText("η", box.x + box.w / 2, box.y + box.h + 17);
  pen.textAlign = "right"; pen.textBaseline = "middle";
  for (const t of ticks(y - halfY, y + halfY)) pen.fillText(t, box.x - 4, box.y + box.h * (0.5 - 0.5 * (t - y) / halfY));
  pen.save(); pen.translate(box.x - 38, box.y + box.h / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText("φ [rad]", 0, 0); pen.restore();
}
function drawFrame(pen, pane, box) {
  const matrix = viewMatrix(pane), {low, high} = state.orbit, c = state.event.columns, inSpace = c.r && c.z;
  const line = (points) => {
    pen.beginPath();
    let isDown = false;
    for (const p of points) { const at = project(matrix, box, ...p); if (!at) { isDown = false; continue; } isDown ? pen.lineTo(...at) : pen.moveTo(...at); isDown = true; }
    pen.stroke();
  };
  const label = (text, p) => { const at = project(matrix, box, ...p); if (at) pen.fillText(text, at[0] + 4, at[1]); };
  pen.save(); pen.beginPath(); pen.rect(box.x, box.y, box.w, box.h); pen.clip();
  pen.textAlign = "left"; pen.textBaseline = "middle";
  if (inSpace) {
    const radius = Math.max(high[0], high[1], -low[0], -low[1]);
    line([[0, 0, low[2] * 1.1], [0, 0, high[2] * 1.1]]);
    label("z", [0, 0, high[2] * 1.1]);
    for (const z of [low[2], 0, high[2]]) line(Array.from({length: 65}, (_, i) => [radius * Math.cos(i * Math.PI / 32), radius * Math.sin(i * Math.PI / 32), z]));
  } else {
    const y = low[1];
    line([[low[0], y, low[2]], [high[0], y, low[2]], [high[0], y, high[2]], [low[0], y, high[2]], [low[0], y, low[2]]]);
    line([[low[0], y, low[2]], [low[0], high[1], low[2]]]);
    label("η", [high[0], y, low[2]]); label("φ", [low[0], y, high[2]]);
    if (target && target.pt) label("log pT", [low[0], high[1], low[2]]);
  }
  pen.restore();
}
function drawSelection(pen, pane) {
  const box = plotBox(pane), matrix = viewMatrix(pane), p = state.positions;
  const at = (i) => project(matrix, box, p[3 * i], p[3 * i + 1], p[3 * i + 2]);
  pen.save(); pen.beginPath(); pen.rect(box.x, box.y, box.w, box.h); pen.clip();
  if (state.selected) {
    pen.strokeStyle = "#222"; pen.lineWidth = 1; pen.beginPath();
    let last = null;
    for (const i of state.selected.order) {
      const here = state.shown[i] ? at(i) : null;
      // No line across ±π: it would cross the whole picture.
      if (here && last && !(state.mode === "plane" && Math.abs(p[3 * i + 1] - last.phi) > Math.PI)) { pen.moveTo(...last.here); pen.lineTo(...here); }
      if (here) last = {here, phi: p[3 * i + 1]};
    }
    pen.stroke();
  }
  if (state.hovered !== null) {
    const here = at(state.hovered);
    if (here) { pen.strokeStyle = "#222"; pen.lineWidth = 1.5; pen.beginPath(); pen.arc(...here, 7, 0, 7); pen.stroke(); }
  }
  pen.restore();
}
