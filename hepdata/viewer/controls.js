"use strict";
// Controls: picking, selection, filters, pointers and keys.

// ---- Picking and selection ---------------------------------------------------------------------------------
function pick(x, y, reach) {  // nearest shown point and its view, or null
  for (let pane = 0; pane < state.panes; pane++) {
    const box = plotBox(pane);
    if (x < box.x || x > box.x + box.w || y < box.y || y > box.y + box.h) continue;
    const m = viewMatrix(pane), p = state.positions;
    let best = reach * reach, found = null;
    for (let i = 0; i < state.event.n; i++) {
      if (!state.shown[i]) continue;
      const at = project(m, box, p[3 * i], p[3 * i + 1], p[3 * i + 2]);
      if (at === null) continue;
      const d = (at[0] - x) ** 2 + (at[1] - y) ** 2;
      if (d < best) { best = d; found = i; }
    }
    return found === null ? null : {point: found, pane};
  }
  return null;
}

function select(point, pane) {
  const event = state.event, name = state.colors[pane], by = name === "track_particle" ? "track" : name;
  let members = [point], title = `${pointName(event, point)}`;
  if (isGroup(by)) {
    const {key, values} = groupsOf(event, by);
    if (key[point]) {
      members = [];
      for (let i = 0; i < event.n; i++) if (key[i] === key[point]) members.push(i);
      title = `${by === "track" ? "found track" : by.replace(/_id$/, "")} ${values[key[point]]}`;
    }
  }
  const c = event.columns, outwards = (i) => c.r && c.z ? c.r[i] + Math.abs(c.z[i]) : i;
  const order = members.slice().sort((a, b) => outwards(a) - outwards(b));
  state.selected = {by, title, members: new Set(members), order};
  describeSelection();
  recolor();
}
function clearSelection() { state.selected = null; $("chosen").hidden = true; recolor(); }

const pointName = (event, i) => target && event.columns[target.point_id] ? `${target.point_id.replace(/_/g, " ")} ${event.columns[target.point_id][i]}` : `point ${i}`;

// Groups that share points with the selection: how many, and of how many.
function overlaps(event, name, members) {
  const {key, values} = groupsOf(event, name), count = new Map(), total = new Map();
  for (const i of members) count.set(key[i], (count.get(key[i]) || 0) + 1);
  for (let i = 0; i < event.n; i++) if (count.has(key[i])) total.set(key[i], (total.get(key[i]) || 0) + 1);
  const none = name === "track" ? "no track" : "noise";
  return [...count].sort((a, b) => b[1] - a[1]).map(([k, n]) => [k ? `${values[k]}` : none, k ? `${n} of its ${total.get(k)}` : `${n}`]);
}
function describeSelection() {
  const {title, order, by} = state.selected, event = state.event, box = $("chosen"), c = event.columns;
  const rows = (list) => `<table>${list.map((row) => `<tr>${row.map((cell, k) => k ? `<td>${text(cell)}</td>` : `<th>${text(cell)}</th>`).join("")}</tr>`).join("")}</table>`;
  const facts = [["points", order.length]];
  const of = target && target.pt && c[target.pt];
  if (of && by !== "track") facts.push(["pT", `${format(of[order[0]])} GeV`]);
  let html = `<h2>${text(title)}</h2>${rows(facts)}`;
  const others = [target && target.objective === "pairs" ? target.label : null, "track"];
  for (const name of others) if (name && name !== by && c[name]) html += `<h2>${name === "track" ? "found tracks" : text(name.replace(/_id$/, "")) + "s"}</h2>${rows(overlaps(event, name, order))}`;
  if (order.length === 1) html += rows(valuesOf(event, order[0]));
  else {
    const shown = ["r", "phi", "z", "eta", level].filter((name) => name && c[name]);
    html += `<h2>hits</h2><table><tr>${shown.map((name) => `<th>${text(name)}</th>`).join("")}</tr>${order.map((i) => `<tr>${shown.map((name) => `<td>${format(c[name][i])}</td>`).join("")}</tr>`).join("")}</table>`;
  }
  box.innerHTML = html;
  box.hidden = false;
}
// Names and units come from the file: they are text, never markup.
const text = (value) => `${value}`.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const format = (value) => typeof value === "bigint" || Number.isInteger(value) ? `${value}` : Number.isNaN(value) ? "–" : `${+value.toPrecision(4)}`;
function valuesOf(event, i) {
  return Object.entries(event.columns).map(([name, values]) => {
    const known = about[name], value = known && known.dtype === "bool" ? (values[i] ? "yes" : "no") : format(values[i]);
    return [name, `${value} ${known ? known.unit : ""}`];
  });
}
function showTip(found, x, y) {
  const tip = $("tip"), isNew = (found ? found.point : null) !== state.hovered;
  state.hovered = found ? found.point : null;
  tip.hidden = !found;
  if (found && isNew) tip.innerHTML = `<table>${valuesOf(state.event, found.point).map(([name, value]) => `<tr><th>${text(name)}</th><td>${text(value)}</td></tr>`).join("")}</table>`;
  if (found) {
    const right = x + 18 + tip.offsetWidth < stage.clientWidth;
    tip.style.left = `${right ? x + 18 : Math.max(0, x - 18 - tip.offsetWidth)}px`;
    tip.style.top = `${Math.max(0, Math.min(y - 20, stage.clientHeight - tip.offsetHeight - 4))}px`;
  }
  if (isNew) redraw();
}

// ---- Views, controls ---------------------------------------------------------------------------------------
function recolor() {
  for (let pane = 0; pane < state.panes; pane++) buffers.colors[pane](colorsOf(pane));
  let shown = 0;
  for (const s of state.shown) shown += s;
  $("status").textContent = `${state.event.n.toLocaleString("en")} points, ${shown.toLocaleString("en")} shown. Drag to ${state.mode === "plane" ? "move" : "rotate (shift: move)"}, scroll to zoom, click to select, hover for all columns.`;
  for (let pane = 0; pane < 2; pane++) {
    const box = paneBox(pane), element = $(`pane-${pane}`);
    element.style.left = `${box.x}px`; element.style.top = `${box.y}px`; element.hidden = pane >= state.panes;
    element.style.display = pane >= state.panes ? "none" : "";
    element.querySelector(".legend").innerHTML = legend(state.colors[pane]);
  }
  redraw();
}
function legend(name) {
  const css = (rgb) => `rgb(${rgb})`;
  if (isGroup(name)) return `one colour each; <b style="background:${css(FAINT)}"></b> none`;
  const values = state.event.columns[name], two = name === "score" || values instanceof Uint8Array, [low, high] = rangeOf(state.event, name);
  const shades = two ? SHADES.score : SHADES.value;
  if (values instanceof Uint8Array) {
    const names = target && name === target.label ? target.label_names : ["no", "yes"];
    return names.map((label, k) => `<b style="background:${css(shades[k ? shades.length - 1 : 0])}"></b> ${text(label)}`).join(" ");
  }
  const unit = about[name] ? about[name].unit : "";
  return `${format(low)} <i style="background:linear-gradient(90deg,${shades.map(css)})"></i> ${format(high)} ${text(unit)}`;
}
function setMode(mode) {
  state.mode = mode;
  state.positions = positions(state.event);
  buffers.position(state.positions);
  if (mode === "plane" ? !state.plane : !state.orbit) resetView();
  recolor();
}
async function openEvent(index) {
  state.index = index;
  state.event = await decode(content.events[index]);
  state.selected = state.hovered = null;
  $("chosen").hidden = $("tip").hidden = true;
  $("event").value = index;
  state.plane = state.orbit = null;
  const c = state.event.columns, names = Object.keys(c).filter((name) => name !== "track" || !c.track_particle);
  if (!state.colors.length) state.colors = firstColors(names);
  for (let pane = 0; pane < 2; pane++) {
    if (!names.includes(state.colors[pane])) state.colors[pane] = names[0];
    const box = $(`pane-${pane}`).querySelector("select");
    box.replaceChildren(...names.map((name) => new Option(colorName(name), name, false, name === state.colors[pane])));
  }
  const pt = target && target.objective === "classification" && target.pt && c[target.pt];
  buffers.size(Float32Array.from({length: state.event.n}, (_, i) => pt ? Math.max(0.7, Math.min(4, Math.sqrt(pt[i]))) : 1));
  applyFilter();
  setMode(state.mode);
}
const colorName = (name) => ({track_particle: "found track", track: "found track", score: "score",
  ...(target ? {[target.label]: target.objective === "pairs" ? "true particle" : `truth: ${target.label.replace(/_/g, " ")}`} : {})}[name] || name);
function firstColors(names) {
  const truth = target && names.includes(target.label) ? target.label : null;
  const answer = ["track_particle", "track", "score"].find((name) => names.includes(name));
  state.panes = truth && answer ? 2 : 1;
  $("both").checked = state.panes === 2;
  return [truth || answer || "eta", answer || (names.includes(level) ? level : "eta")];
}
function number(id) { const typed = $(id).value; return typed === "" ? undefined : Number(typed); }
function readFilter() {
  state.filter = {ptMin: number("pt-min"), ptMax: number("pt-max"), levelMin: number("level-min"), levelMax: number("level-max"), only: $("only").checked};
  applyFilter();
  recolor();
}
const step = (by) => openEvent((state.index + by + content.events.length) % content.events.length);

function connect() {
  $("event").replaceChildren(...content.events.map((e, i) => new Option(`event ${e.event}${e.sector ? ` sector ${e.sector}` : ""} (${e.n.toLocaleString("en")})`, i)));
  $("event").onchange = () => openEvent(Number($("event").value));
  $("previous").onclick = () => step(-1);
  $("next").onclick = () => step(1);
  $("reset").onclick = () => { resetView(); redraw(); };
  $("both").onchange = () => { state.panes = $("both").checked ? 2 : 1; recolor(); };
  for (const box of document.getElementsByName("mode")) box.onchange = () => setMode(box.value);
  for (const id of ["pt-min", "pt-max", "level-min", "level-max", "only"]) $(id).oninput = readFilter;
  for (let pane = 0; pane < 2; pane++) $(`pane-${pane}`).querySelector("select").onchange = (e) => { state.colors[pane] = e.target.value; if (state.selected) clearSelection(); else recolor(); };
  const first = Object.fromEntries(content.events[0].layout.map(([name]) => [name, true]));
  $("pt-filter").hidden = !(target && target.pt && first[target.pt]);
  $("level-filter").hidden = !(level && first[level]);
  $("level-name").textContent = level;
  $("selection-filter").hidden = !(target && target.selection && first[target.selection]);
  $("selection-name").textContent = target && target.selection ? target.selection.replace(/^is_/, "").replace(/_/g, " ") : "";
  for (const id of ["pt-filter", "level-filter", "selection-filter"]) if ($(id).hidden) $(id).style.display = "none";
  document.onkeydown = (e) => {
    if (/INPUT|SELECT/.test(e.target.tagName)) return;
    if (e.key === "ArrowLeft") step(-1); else if (e.key === "ArrowRight") step(1);
    else if (e.key === "r") { resetView(); redraw(); } else if (e.key === "Escape") clearSelection();
  };
  window.onresize = recolor;
  connectPointer();
}

function connectPointer() {
  const held = new Map();
  let moved = 0, spread = 0;
  const at = (e) => { const box = stage.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
  const distance = () => { const [a, b] = [...held.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
  canvas.onpointerdown = (e) => { canvas.setPointerCapture(e.pointerId); held.set(e.pointerId, at(e)); moved = 0; if (held.size === 2) spread = distance(); };
  canvas.onpointermove = (e) => {
    const [x, y] = at(e);
    if (!held.has(e.pointerId)) return showTip(pick(x, y, 12), x, y);
    const [px, py] = held.get(e.pointerId);
    held.set(e.pointerId, [x, y]);
    moved += Math.abs(x - px) + Math.abs(y - py);
    if (held.size === 2) { const now = distance(); zoom(x, y, spread / now); spread = now; } else drag(x, y, x - px, y - py, e.shiftKey || e.buttons === 2);
    showTip(null);
    redraw();
  };
  canvas.onpointerup = (e) => {
    held.delete(e.pointerId);
    if (moved > 4 || held.size) return;
    const found = pick(...at(e), 12);
    if (found) select(found.point, found.pane); else clearSelection();
  };
  canvas.onpointercancel = (e) => held.delete(e.pointerId);
  canvas.onpointerleave = () => showTip(null);
  canvas.oncontextmenu = (e) => e.preventDefault();
  canvas.ondblclick = () => { resetView(); redraw(); };
  canvas.addEventListener("wheel", (e) => { e.preventDefault(); zoom(...at(e), Math.exp(0.0015 * Math.max(-200, Math.min(200, e.deltaY)))); redraw(); }, {passive: false});
}
function drag(x, y, dx, dy, isMove) {
  const box = plotBox(x > paneBox(0).x + paneBox(0).w || y > paneBox(0).y + paneBox(0).h ? 1 : 0);
  if (state.mode === "plane") { state.plane.x -= 2 * dx / box.w * state.plane.halfX; state.plane.y += 2 * dy / box.h * state.plane.halfY; return; }
  const o = state.orbit;
  if (isMove) {
    const [right, up] = orbitFrame(o), unit = 2 * o.distance * Math.tan(0.35) / box.h;
    o.target = o.target.map((t, k) => t - unit * (dx * right[k] - dy * up[k]));
  } else { o.turn -= dx * 0.007; o.tilt = Math.max(-1.55, Math.min(1.55, o.tilt + dy * 0.007)); }
}
function zoom(x, y, factor) {
  if (state.mode === "space") { state.orbit.distance *= factor; return; }
  const pane = [0, 1].find((k) => { const b = paneBox(k); return k < state.panes && x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h; }) || 0;
  const box = plotBox(pane), p = state.plane;  // the place under the pointer stays
  const fx = 2 * (x - box.x) / box.w - 1, fy = 1 - 2 * (y - box.y) / box.h;
  p.x += fx * p.halfX * (1 - factor); p.y += fy * p.halfY * (1 - factor);
  p.halfX *= factor; p.halfY *= factor;
}

// Milliseconds a frame of a turning view; reading a pixel waits until it is drawn.
function frameTime(frames) {
  const gl = canvas.getContext("webgl"), pixel = new Uint8Array(4), kept = state.orbit && {...state.orbit};
  const begun = performance.now();
  for (let i = 0; i < frames; i++) {
    if (state.mode === "space") state.orbit.turn += 0.02;
    draw();
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
  }
  const spent = (performance.now() - begun) / frames;
  if (kept) state.orbit = kept;
  redraw();
  return spent;
}

connect();
openEvent(0).then(() => {
  // For tests and for the curious: `heptView.frameTime(60)` in the browser's console.
  window.heptView = {state, open: openEvent, setMode, frameTime, pick,
    locate: (point, pane = 0) => project(viewMatrix(pane), plotBox(pane), ...state.positions.slice(3 * point, 3 * point + 3))};
  document.documentElement.dataset.ready = "yes";
}).catch((error) => {
  console.error(error);
  fail(`The events cannot be shown: ${error.message}`);
});
