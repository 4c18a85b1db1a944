import {
  $, h, show, api, num, bytes, address, setAddress, newest, commandLine, problem, plotly, chartLook, chartRest, colour, wrapped,
  kindColour, kindWords, plain, say,
} from "./lib.js";

const SLIDERS = [
  ["heads", "Heads", 1, 512, 8], ["d_model", "d_model", 1, 8192, 64], ["d_head", "d_head", 1, 8192, null],
  ["context", "Context", 1, 8192, 32], ["vocab", "Vocabulary", 2, 262144, 1000], ["layers", "Layers", 1, 2048, 1],
  ["d_mlp", "d_mlp", 0, 65536, 0],
];
const DTYPES = ["float64", "float32", "bfloat16", "float16", "exact"];
const state = Object.fromEntries(SLIDERS.map(([name, , , , usual]) => [name, usual]));
Object.assign(state, { dtype: "float32", shared: false, kruskal: null, last_tokens: null, facts: null, axis: "heads", linear: false, plan: 10000 });

function readAddress() {
  const given = address();
  for (const name of [...SLIDERS.map((s) => s[0]), "kruskal", "last_tokens", "facts", "plan"]) {
    if (/^\d{1,12}$/.test(given[name] ?? "")) state[name] = Number(given[name]);
  }
  if (DTYPES.includes(given.dtype)) state.dtype = given.dtype;
  if (SLIDERS.some((s) => s[0] === given.axis)) state.axis = given.axis;
  state.shared = given.shared === "1";
  state.linear = given.linear === "1";
}

const query = () => {
  const q = new URLSearchParams();
  for (const [name] of SLIDERS) if (state[name] !== null) q.set(name, state[name]);
  for (const name of ["kruskal", "last_tokens", "facts"]) if (state[name]) q.set(name, state[name]);
  q.set("dtype", state.dtype);
  q.set("axis", state.axis);
  if (state.shared) q.set("shared", "1");
  return q;
};
const remember = () => setAddress({ ...Object.fromEntries(query()), linear: state.linear ? 1 : null, plan: state.plan === 10000 ? null : state.plan });

// Sliders run over logarithms: 0 .. 1000 stands for low .. high.
const shift = (low) => (low === 0 ? 1 : 0);
const place = (value, low, high) => Math.round(1000 * Math.log((value + shift(low)) / (low + shift(low))) / Math.log((high + shift(low)) / (low + shift(low))));
const value = (at, low, high) => Math.round((low + shift(low)) * ((high + shift(low)) / (low + shift(low))) ** (at / 1000)) - shift(low);

function slider([name, label, low, high]) {
  const tied = name === "d_head";
  const number = h("input", { type: "text", inputmode: "numeric", class: "number", "aria-label": `${label}, exact`, id: `n-${name}` });
  const range = h("input", { type: "range", min: "0", max: "1000", step: "1", id: `r-${name}` });
  const link = tied ? h("label", { class: "check" }, h("input", { type: "checkbox", id: "tied", onchange: (e) => {
    state.d_head = e.target.checked ? null : state.d_model;
    draw();
  } }), "= d_model") : null;
  const draw = () => {
    const now = state[name] ?? state.d_model;
    number.value = now;
    range.value = place(Math.min(now, high), low, high);
    range.setAttribute("aria-valuetext", num(now));
    if (tied) { $("input", link).checked = state.d_head === null; range.disabled = number.disabled = state.d_head === null; }
  };
  const set = (next) => {
    state[name] = Math.max(low, Math.min(next, 1e9));
    draw();
    if (name === "d_model") all.get("d_head").draw();
    refresh();
  };
  range.addEventListener("input", () => {
    let next = value(Number(range.value), low, high);
    // Where values are sparse a step of the slider is at least one.
    if (next === state[name]) next += Math.sign(Number(range.value) - place(next, low, high));
    set(Math.max(low, next));
  });
  range.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    set(Math.min(high, (state[name] ?? state.d_model) + step * (event.shiftKey ? 10 : 1)));
  });
  number.addEventListener("change", () => {
    const next = Number(number.value.replace(/[^\d]/g, ""));
    if (number.value.trim() && Number.isFinite(next)) set(next); else draw();
  });
  const made = h("div", { class: "slider" }, h("label", { for: `r-${name}` }, label), link, number, range);
  return [name, { made, draw }];
}
const all = new Map(SLIDERS.map(slider));

function controls() {
  const dtype = h("select", { id: "dtype", onchange: (e) => { state.dtype = e.target.value; refresh(); } },
    DTYPES.map((name) => h("option", { value: name, selected: name === state.dtype }, name)));
  show($("#sliders"), [...all.values()].map((s) => s.made), h("div", { class: "slider" }, h("label", { for: "dtype" }, "Number format"), dtype));
  const known = (name, label, hint) => {
    const box = h("input", { type: "text", inputmode: "numeric", class: "number", id: `k-${name}`, value: state[name] ?? "", placeholder: "–",
      onchange: () => { state[name] = /^\d+$/.test(box.value.trim()) ? Number(box.value) : null; refresh(); } });
    return h("div", { class: "slider" }, h("label", { for: `k-${name}`, title: hint }, label), box);
  };
  show($("#known"),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: state.shared, onchange: (e) => { state.shared = e.target.checked; refresh(); } }), "all examples share one context"),
    known("kruskal", "Kruskal rank of the queries", "Q"), known("last_tokens", "Distinct last tokens", "L"), known("facts", "Facts in mind", "T_0"));
  if (state.shared || state.kruskal || state.last_tokens || state.facts) $("#more").open = true;
  const axis = $("#axis");
  show(axis, SLIDERS.map(([name, label]) => h("option", { value: name, selected: name === state.axis }, label.toLowerCase())));
  axis.addEventListener("change", () => { state.axis = axis.value; refresh(); });
  $("#linear").checked = state.linear;
  $("#linear").addEventListener("change", (e) => { state.linear = e.target.checked; remember(); if (last) chart(last); });
  const facts = $("#plan-facts");
  facts.value = num(state.plan);
  facts.addEventListener("input", () => {
    const next = Number(facts.value.replace(/[^\d]/g, ""));
    if (next >= 1) { state.plan = next; remember(); plan(); }
  });
  for (const one of all.values()) one.draw();
}

let last = null;
let asked = 0;
const ask = newest(async () => {
  asked = performance.now();
  try {
    last = await api(`/api/bounds?${query()}`);
  } catch (error) {
    show($("#bounds"), problem(error.message));
    return;
  }
  if (last.waiting.length) later();
  const found = last;
  await chart(found);
  // The table after the picture: it is the longer read and the slower write.
  clearTimeout(writing);
  writing = setTimeout(() => { if (found === last) table(found); }, 40);
});
let writing = 0;

/** Theorems that search for their number come after, once the sliders rest. */
let resting = 0;
function later() {
  clearTimeout(resting);
  resting = setTimeout(async () => {
    const wish = query().toString();
    try {
      const found = await api(`/api/bounds/all?${wish}`);
      if (wish !== query().toString()) return;
      last = found;
      table(last);
      await chart(last);
    } catch (error) { if (wish === query().toString()) show($("#bounds"), problem(error.message)); }
  }, 250);
}
const plan = newest(async () => {
  const q = new URLSearchParams({ facts: state.plan, vocab: state.vocab, context: state.context, dtype: state.dtype });
  try { plans(await api(`/api/plan?${q}`)); } catch (error) { show($("#plans"), problem(error.message)); }
});

function refresh() { remember(); ask(); plan(); }

/** Lines that coincide are one line with several names. */
function groups(found) {
  const made = new Map();
  for (const line of found.lines) {
    if (line.y.every((v) => v === null)) continue;
    const key = `${line.kind} ${line.y.join()}`;
    if (made.has(key)) made.get(key).names.push(line.theorem);
    else made.set(key, { ...line, names: [line.theorem] });
  }
  return [...made.values()];
}

async function chart(found) {
  const Plotly = await plotly();
  const box = $("#chart");
  const wide = box.clientWidth > 620;
  const dash = { lower: "solid", upper: "dash", empirical: "dot" };
  const traces = groups(found).map((g) => ({
    x: found.x, y: g.y, name: g.names.join(", "), type: "scatter", mode: "lines", connectgaps: false,
    line: { color: colour(kindColour[g.kind]), width: g.kind === "lower" ? 2.4 : 2, dash: dash[g.kind] || "dot" },
    hovertemplate: `<b>${g.names.map(plain).join("<br>")}</b><br>${g.kind}: %{y:,} facts at ${plain(found.axis)} = %{x:,}<extra></extra>`,
  }));
  const silent = found.lines.filter((line) => line.kind !== "order" && line.why.some(Boolean));
  // All lanes are one trace: a chart of few traces is drawn in time.
  const lanes = silent.flatMap((line, row) => [...found.x.map((x, i) => (line.why[i] ? { x, row, text: `<b>${plain(line.theorem)}</b> says nothing at ${plain(found.axis)} = ${num(x)}<br>${wrapped(line.why[i])}` } : null)), null]);
  if (silent.length) {
    traces.push({
      x: lanes.map((p) => p?.x ?? null), y: lanes.map((p) => p?.row ?? null), text: lanes.map((p) => p?.text ?? ""), yaxis: "y2", name: "silent", type: "scatter", mode: "lines+markers",
      line: { color: colour("silent"), width: 13 }, marker: { color: colour("silent"), size: 13, symbol: "square" }, opacity: 0.75, connectgaps: false, hovertemplate: "%{text}<extra></extra>",
    });
    traces.push({
      x: silent.map(() => found.x[0]), y: silent.map((_, row) => row), text: silent.map((line) => ` ${plain(line.theorem)}`), yaxis: "y2", name: "names of lanes", type: "scatter", mode: "text",
      textposition: "middle right", textfont: { size: 11, color: colour("faint") }, hoverinfo: "skip", cliponaxis: false,
    });
  }
  const scale = state.linear ? "linear" : "log";
  const height = (wide ? 380 : 300) + 19 * silent.length + (silent.length ? 24 : 0);
  const lane = silent.length ? (19 * silent.length) / (height - 60) : 0;
  box.style.height = `${height}px`;
  if (wide) traces.push(labels(found, height, lane));
  const look = chartLook({
    height, margin: { l: 58, r: wide ? 196 : 14, t: 8, b: 46 }, hovermode: "closest", hoverdistance: 30,
    xaxis: { type: scale, automargin: false, title: { text: found.axis }, anchor: silent.length ? "y2" : "y", tickformat: ",", ...(state.linear ? { nticks: wide ? 12 : 5 } : { tickvals: marks(found.x, wide) }),
      range: [found.x[0], found.x.at(-1)].map(state.linear ? (v) => v : Math.log10) },
    yaxis: { type: scale, automargin: false, domain: [lane ? lane + 0.05 : 0, 1], range: span(found), tickformat: state.linear ? "," : "~s", nticks: 7 },
    shapes: [{ type: "line", x0: found.now, x1: found.now, y0: 0, y1: 1, yref: "paper", line: { color: colour("muted"), width: 1, dash: "2px,3px" } }],
  });
  look.yaxis2 = { domain: [0, lane], range: [silent.length - 0.4, -0.6], showgrid: false, zeroline: false, fixedrange: true, showticklabels: false, visible: silent.length > 0 };
  await Plotly.react(box, traces, look, chartRest);
  box.dataset.drawn = String(Math.round(performance.now() - asked));
  box.setAttribute("aria-label", `Chart of ${groups(found).length} lines against ${found.axis}; the numbers at the present shape are in the table below.`);
}

/** 1, 2, 5, 10, ... where there is room, powers of ten (and their thirds) otherwise. */
function marks(x, wide) {
  const steps = wide || x.at(-1) / x[0] < 300 ? [1, 2, 5] : [1];
  const made = [];
  for (let ten = 1; ten <= x.at(-1); ten *= 10) for (const step of steps) if (ten * step >= x[0] && ten * step <= x.at(-1)) made.push(ten * step);
  return made;
}

/** The range of the upper axis, with a little air. */
function span(found) {
  const f = state.linear ? (v) => v : Math.log10;
  const shown = found.lines.flatMap((line) => line.y).filter((v) => v > 0).map(f);
  if (!shown.length) return [0, 1];
  const low = state.linear ? 0 : Math.min(...shown), high = Math.max(...shown), air = 0.04 * Math.max(1e-6, high - low);
  return [low - (state.linear ? 0 : air), high + air];
}

/** Names at the right end of the lines, moved apart where they would overlap. */
function labels(found, height, lane) {
  const [low, high] = span(found), f = state.linear ? (v) => v : Math.log10;
  const bottom = lane ? lane + 0.05 : 0;
  const spots = groups(found).filter((g) => g.y.at(-1) > 0).map((g) => ({ ...g, at: (f(g.y.at(-1)) - low) / (high - low) })).sort((a, b) => a.at - b.at);
  const gap = 14.5 / ((height - 54) * (1 - bottom));
  // Neighbours that are too close share one block, centred where its lines end.
  const blocks = [];
  for (const spot of spots) {
    blocks.push({ members: [spot], centre: spot.at });
    while (blocks.length > 1) {
      const [under, over] = blocks.slice(-2);
      if (over.centre - under.centre >= (gap * (under.members.length + over.members.length)) / 2) break;
      const members = [...under.members, ...over.members];
      const middle = members.reduce((sum, m) => sum + m.at, 0) / members.length, half = (gap * (members.length - 1)) / 2;
      blocks.splice(-2, 2, { members, centre: Math.min(1 - half, Math.max(half, middle)) });
    }
  }
  const back = state.linear ? (v) => v : (v) => 10 ** v;
  const names = blocks.flatMap((block) => block.members.map((g, i) => ({ g, at: back(low + (high - low) * (block.centre + gap * (i - (block.members.length - 1) / 2))) })));
  // A trace of texts: annotations would each be measured, which takes longer than all lines together.
  return {
    x: names.map(() => found.x.at(-1)), y: names.map((n) => n.at), text: names.map(({ g }) => ` ${plain(g.names[0])}${g.names.length > 1 ? ` +${g.names.length - 1}` : ""}`), name: "names of lines",
    type: "scatter", mode: "text", textposition: "middle right", textfont: { size: 11, color: names.map(({ g }) => colour(kindColour[g.kind])) }, hoverinfo: "skip", cliponaxis: false,
  };
}

function table(found) {
  const rows = [];
  for (const kind of ["lower", "upper", "empirical", "order"]) {
    const of = found.bounds.filter((b) => b.kind === kind);
    if (!of.length) continue;
    rows.push(h("tr", { class: "kind" }, h("th", { colSpan: 4, scope: "rowgroup" }, h("span", { class: `swatch ${kind}` }), kindWords[kind])));
    for (const b of of) {
      const silent = b.facts === null;
      const open = b.conditions.filter((c) => c.status === "unknown");
      const words = silent ? b.why : open.length ? `rests on: ${open.map((c) => c.name).join(", ")}` : "all conditions met";
      const tip = silent ? b.why : b.conditions.map((c) => `${{ met: "✓", "not met": "✗", unknown: "?" }[c.status]} ${c.name}: ${c.detail}`).join("\n");
      rows.push(h("tr", { class: silent ? "silent" : "", "data-theorem": b.theorem, tabIndex: 0, title: tip },
        h("td", {}, h("a", { href: `/theorems?theorem=${b.theorem}` }, b.theorem), h("div", { class: "formula" }, b.formula)),
        h("td", { class: "right strong" }, num(b.facts)),
        h("td", { class: "right bpp" }, num(b.bits_per_param)),
        h("td", { class: "why" }, words)));
    }
  }
  for (const name of found.waiting) rows.push(h("tr", { class: "silent", "data-theorem": name }, h("td", {}, name), h("td", { class: "right" }, "…"), h("td", { class: "right bpp" }, ""), h("td", { class: "why" }, "searching for the largest T")));
  $("#here").textContent = `${num(found.params.total)} parameters in ${found.dtype}: attention ${num(found.params.attention)}, MLP ${num(found.params.mlp)}, embedding ${num(found.params.embedding)}, positions ${num(found.params.positions)}, unembedding ${num(found.params.unembedding)}.`;
  show($("#bounds"), h("div", { class: "scroll" }, h("table", { class: "bounds" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "theorem"), h("th", { scope: "col", class: "right" }, "facts"), h("th", { scope: "col", class: "right bpp" }, "bits/param"), h("th", { scope: "col" }, "conditions"))),
    h("tbody", {}, rows))));
  show($("#bound-command"), commandLine(found.command));
}

function plans(found) {
  show($("#plan-command"), commandLine(found.command));
  if (found.refusal) { show($("#plans"), problem(found.refusal)); return; }
  const words = (a) => [a.n_layers > 1 ? `${num(a.n_layers)} layers` : null, `${num(a.n_heads)} head${a.n_heads > 1 ? "s" : ""} of ${num(a.d_head)}`, `d_model ${num(a.d_model)}`, a.d_mlp ? `d_mlp ${num(a.d_mlp)}` : null].filter(Boolean).join(", ");
  const most = Math.max(...found.plans.map((p) => Math.log10(p.params)), 1);
  show($("#plans"),
    found.plans.length ? null : h("p", {}, "No construction fits."),
    h("ol", { class: "plans" }, found.plans.map((p) => h("li", { title: p.note || null },
      h("div", { class: "row between" }, h("a", { href: `/theorems?theorem=${p.construction}` }, p.construction), h("span", { class: "strong" }, num(p.params))),
      h("div", { class: "bar" }, h("i", { style: `width:${(100 * Math.log10(p.params)) / most}%` })),
      h("div", { class: "hint row between" }, h("span", {}, words(p.architecture)), h("span", {}, bytes(p.bytes)))))),
    found.refused.map((r) => h("p", { class: "hint silent" }, `${r.construction}: ${r.reason}.`)));
}

readAddress();
controls();
ask();
plan();
addEventListener("themechange", () => { if (last) chart(last); });
addEventListener("resize", () => { clearTimeout(window.waiting); window.waiting = setTimeout(() => last && chart(last), 150); });
export { state, say };
