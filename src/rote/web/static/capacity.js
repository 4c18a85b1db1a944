import { coloured, endNames } from "./figure.js";
import {
  $, h, show, api, num, bytes, address, setAddress, newest, commandLine, problem, plotly, chartRest, colour, kindWords, say,
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
  if (state.linear) q.set("linear", "1");
  return q;
};
const remember = () => setAddress({ ...Object.fromEntries(query()), plan: state.plan === 10000 ? null : state.plan });

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
  $("#linear").addEventListener("change", (e) => { state.linear = e.target.checked; refresh(); });
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

/** The figure's two panels share one axis: lines above, and below them a row for every theorem that is silent somewhere. */
async function chart(found) {
  const Plotly = await plotly();
  const box = $("#chart");
  const wide = box.clientWidth > 620;
  const [lines, lanes] = found.figure.panels.map((plot) => coloured(plot));
  // On a narrow screen the names of the rows would leave no room for the lines; the table says the same.
  const rows = box.clientWidth > 480 && lanes ? lanes.layout.yaxis.tickvals.length : 0;
  const height = (wide ? 380 : 300) + 19 * rows + (rows ? 24 : 0);
  const lane = rows ? (19 * rows) / (height - 60) : 0, bottom = lane ? lane + 0.05 : 0;
  const { range, trace } = endNames(lines, (height - 54) * (1 - bottom));
  const still = { fixedrange: true, automargin: false };
  const layout = {
    ...lines.layout, height, dragmode: false, hoverdistance: 30, margin: { l: 58, r: wide ? 196 : 14, t: 8, b: 46 },
    xaxis: { ...lines.layout.xaxis, ...still, anchor: rows ? "y2" : "y" },
    yaxis: { ...lines.layout.yaxis, ...still, domain: [bottom, 1], range, nticks: 7 },
    shapes: [{ type: "line", x0: found.now, x1: found.now, y0: 0, y1: 1, yref: "paper", line: { color: colour("muted"), width: 1, dash: "2px,3px" } }],
  };
  const data = [...lines.data, ...(wide && trace ? [trace] : [])];
  if (rows) {
    layout.yaxis2 = { ...lanes.layout.yaxis, ...still, domain: [0, lane], range: [-0.6, rows - 0.4], showgrid: false, showline: false, ticks: "", ticklabelposition: "inside", tickfont: { size: 11 } };
    data.push(...lanes.data.map((one) => ({ ...one, yaxis: "y2" })));
  }
  box.style.height = `${height}px`;
  await Plotly.react(box, data, layout, chartRest);
  box.dataset.drawn = String(Math.round(performance.now() - asked));
  box.setAttribute("aria-label", `Chart of ${found.figure.alt}; the numbers at the present shape are in the table below.`);
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
