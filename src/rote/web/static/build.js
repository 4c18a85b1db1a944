import { $, h, show, api, num, percent, duration, bytes, address, setAddress, newest, commandLine, problem, field, say } from "./lib.js";

const given = address();
const state = {
  shipped: given.shipped || (given.upload ? null : "elements"), upload: given.upload || null, tokens: given.tokens || null, target: given.target || null,
  context: given.context ? given.context.split("\t") : null, on_conflict: given.on_conflict || "error", with: given.with || "auto", job: given.job || null,
  heads: null, d_model: null, d_head: null, d_mlp: null, dtype: given.dtype || null, variant: given.variant || null, seed: 0, arch: "rote",
  rank1_qk: false, refine: false, partial: false, with_positions: given.with_positions === "1",
};
let shipped = [], builders = [], file = null, builds = [], shownResult = "";

const remember = () => setAddress({
  shipped: state.shipped, upload: state.upload, tokens: state.tokens, target: state.target, context: state.context?.join("\t"),
  on_conflict: state.on_conflict === "error" ? null : state.on_conflict, with: state.with === "auto" ? null : state.with,
  dtype: state.dtype, variant: state.variant, with_positions: state.with_positions ? 1 : null, job: state.job,
});
const reading = () => ({
  shipped: state.shipped, upload: state.upload, tokens: state.tokens, target: state.target, context: state.context,
  on_conflict: state.on_conflict, with: state.with,
});

function pick(changes) {
  Object.assign(state, changes, { tokens: null, target: null, context: null });
  facts();
  token();
  check();
}

function facts() {
  show($("#shipped"), shipped.map((s) => h("label", { class: `card${s.installed ? "" : " silent"}`, title: s.installed ? s.description : `needs pip install 'rote[data]'` },
    h("input", { type: "radio", name: "shipped", value: s.name, checked: s.name === state.shipped, disabled: !s.installed, onchange: () => { file = null; pick({ shipped: s.name, upload: null }); show($("#upload")); } }),
    h("span", { class: "strong" }, s.name), h("span", { class: "hint" }, `${num(s.rows)} facts · ${s.columns.join(", ")}`))));
}

async function take(chosen) {
  if (!chosen) return;
  show($("#upload"), h("p", { class: "hint" }, `Reading ${chosen.name} …`));
  try {
    if (chosen.size > 20e6) throw new Error(`${chosen.name} is ${bytes(chosen.size)}, and this page takes 20 MB; rote build on the command line takes more.`);
    const found = await api(`/api/uploads?name=${encodeURIComponent(chosen.name)}`, { body: chosen, raw: true });
    file = found;
    show($("#upload"), h("p", { class: "row wrap" }, h("b", { class: "filename" }, found.label), h("span", { class: "hint" }, `${num(found.rows)} rows, ${found.columns.length} columns, ${bytes(found.size)}`)));
    pick({ shipped: null, upload: found.id });
  } catch (error) {
    show($("#upload"), problem(error.message));
    say(error.message);
  }
}

function token() {
  const own = shipped.find((s) => s.name === state.shipped);
  const usual = own ? own.tokens : "cells";
  const words = { cells: "whole cells", words: "words", chars: "characters" };
  show($("#cuts"), Object.entries(words).map(([cut, label]) => h("button", { type: "button", "aria-pressed": String((state.tokens || usual) === cut), onclick: () => {
    state.tokens = cut === usual ? null : cut;
    token();
    check();
  } }, label)));
  const columns = own ? own.columns : file?.columns || [];
  const target = state.target || columns.at(-1);
  const chosen = state.context || columns.filter((c) => c !== target);
  show($("#columns"), columns.length ? h("div", { class: "row wrap columns" },
    h("fieldset", {}, h("legend", {}, "Context"), columns.filter((c) => c !== target).map((c) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.includes(c), onchange: (e) => {
      const next = columns.filter((d) => d !== target && (d === c ? e.target.checked : chosen.includes(d)));
      state.context = next.length && next.length < columns.length - 1 ? next : null;
      token();
      check();
    } }), c))),
    field("Target", h("select", { onchange: (e) => { state.target = e.target.value === columns.at(-1) ? null : e.target.value; state.context = null; token(); check(); } }, columns.map((c) => h("option", { value: c, selected: c === target }, c)))),
    field("Contradictions", h("select", { onchange: (e) => { state.on_conflict = e.target.value; check(); } }, [["error", "refuse"], ["first", "keep the first"], ["last", "keep the last"]].map(([v, t]) => h("option", { value: v, selected: v === state.on_conflict }, t))))) : null);
}

const check = newest(async () => {
  remember();
  $("#checks").setAttribute("aria-busy", "true");
  $("#go").disabled = true;
  try {
    const found = await api("/api/check", { body: reading() });
    sample(found);
    findings(found);
    $("#go").disabled = false;
  } catch (error) {
    show($("#sample"));
    show($("#checks"), problem(error.message));
  }
  $("#checks").removeAttribute("aria-busy");
});

function sample(found) {
  if (!found.first) { show($("#sample")); return; }
  show($("#sample"), h("ul", { class: "facts", "aria-label": "The first facts" }, found.first.slice(0, 5).map((f) => h("li", {}, f.context.map((t) => h("span", { class: "token" }, t)), h("span", { class: "arrow" }, "→"), h("span", { class: "token target" }, f.target)))));
}

function findings(found) {
  const t = found.table, r = found.read;
  const notes = [r?.n_duplicates ? `${num(r.n_duplicates)} exact duplicates dropped` : null, r?.n_conflicts_resolved ? `${num(r.n_conflicts_resolved)} contradictions settled` : null, r?.n_padded ? `${num(r.n_padded)} contexts padded on the left` : null].filter(Boolean);
  const mark = (f) => (f.theorems.length === 0 ? ["·", "note"] : f.holds === true ? ["✓", "met"] : f.holds === false ? ["✗", "not-met"] : ["?", "unknown"]);
  const verdicts = [[true, "may be used"], [null, "open"], [false, "may not be used"]];
  show($("#checks"),
    h("p", {}, h("b", {}, num(t.n_facts)), " facts, contexts of ", h("b", {}, num(t.context)), `, ${num(t.vocab)} tokens`, t.n_targets ? `, ${num(t.n_targets)} targets` : "", ".", notes.length ? h("span", { class: "hint" }, ` ${notes.join("; ")}.`) : null),
    h("ul", { class: "conditions" }, found.findings.map((f) => {
      const [sign, kind] = mark(f);
      return h("li", { class: kind }, h("span", { class: "mark", "aria-label": kind }, sign), h("div", {}, h("b", {}, f.assumption), ` ${f.explanation}`,
        f.offenders.length ? h("details", {}, h("summary", { class: "hint" }, `first offenders, ${num(f.n_offenders)} in all`), h("ul", { class: "offenders" }, f.offenders.map((o) => h("li", {}, o)))) : null));
    })),
    h("dl", { class: "pairs tight" }, verdicts.map(([verdict, head]) => {
      const of = found.usable.filter((u) => u.verdict === verdict);
      return of.length ? [h("dt", {}, head), h("dd", {}, of.map((u, i) => [i ? ", " : "", h("a", { href: `/theorems?theorem=${u.theorem}`, title: u.reasons.join(", ") || null }, u.theorem)]))] : null;
    })),
    found.plans.length ? h("details", {}, h("summary", {}, "Smallest shapes planned for these facts"), h("table", {}, h("tbody", {}, found.plans.map((p) => h("tr", {}, h("td", {}, p.construction), h("td", { class: "right" }, `${num(p.params)} parameters`), h("td", { class: "right" }, bytes(p.bytes)))))), found.refused.map((n) => h("p", { class: "hint silent" }, `${n.construction}: ${n.reason}.`))) : null,
    commandLine(found.command));
}

function options() {
  const number = (name, label, hint) => {
    const box = h("input", { type: "text", inputmode: "numeric", placeholder: "planned", value: state[name] ?? "", onchange: () => { state[name] = /^\d+$/.test(box.value.trim()) ? Number(box.value) : null; } });
    return field(label, box, hint);
  };
  const choice = (name, label, values) => field(label, h("select", { onchange: (e) => { state[name] = e.target.value || null; remember(); } }, values.map(([v, t]) => h("option", { value: v, selected: (state[name] || "") === v }, t))));
  const tick = (name, label) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: state[name], onchange: (e) => { state[name] = e.target.checked; remember(); } }), label);
  const chosen = builders.find((b) => b.theorem === state.with);
  const exact = chosen?.native === "exact";
  show($("#options"),
    field("Construction", h("select", { id: "with", onchange: (e) => { state.with = e.target.value; state.dtype = state.variant = null; options(); check(); } },
      h("option", { value: "auto" }, "auto: the fewest parameters that recall everything"), builders.map((b) => h("option", { value: b.theorem, selected: b.theorem === state.with }, `${b.theorem}: ${b.title}`))), chosen?.statement),
    h("details", { class: "advanced" }, h("summary", {}, "Shape, format, seed"), h("div", { class: "grid3" },
      exact ? null : [number("heads", "Heads"), number("d_model", "d_model"), number("d_head", "d_head")],
      state.with === "mlp_fit" ? number("d_mlp", "d_mlp") : null,
      choice("dtype", "Recall at", exact ? [["", "exact"], ["float64", "float64"], ["float32", "float32"]] : [["", "float32"], ["float64", "float64"], ["bfloat16", "bfloat16"], ["float16", "float16"]]),
      exact ? choice("variant", "Variant", [["", "by the format"], ["A", "A, provable"], ["B", "B, for floats"], ["C", "C, fewest weights"]]) : choice("arch", "Kind", [["rote", "rote"], ["llama", "stock Llama"]]),
      field("Seed", h("input", { type: "text", inputmode: "numeric", value: state.seed, onchange: (e) => { state.seed = Number(e.target.value.replace(/\D/g, "")) || 0; e.target.value = state.seed; } }))),
    h("div", { class: "row wrap" }, exact ? tick("with_positions", "order of tokens counts") : [tick("rank1_qk", "rank-1 QK"), tick("refine", "refine")], tick("partial", "keep a model that loses facts"))));
  if (exact) $("#options details").open = true;
}

async function go() {
  show($("#go-problem"));
  try {
    const { id } = await api("/api/builds", { body: { ...reading(), heads: state.heads, d_model: state.d_model, d_head: state.d_head, d_mlp: state.d_mlp, dtype: state.dtype, variant: state.variant, seed: state.seed, arch: state.arch, rank1_qk: state.rank1_qk, refine: state.refine, partial: state.partial, with_positions: state.with_positions } });
    state.job = id;
    remember();
    await look();
    if (innerWidth < 900) $("#jobs").scrollIntoView({ behavior: "smooth" });
  } catch (error) { show($("#go-problem"), problem(error.message)); }
}

const words = { queued: "waiting", running: "running", done: "done", failed: "failed", cancelled: "cancelled" };
function jobs() {
  if (!builds.length) { show($("#jobs"), h("p", { class: "hint" }, "None yet. They are kept until the explorer ends.")); return; }
  // Cards are kept and filled, so that a button does not vanish under the pointer.
  const list = $("#jobs ol") || h("ol", { class: "jobs" });
  const kept = new Map([...list.children].map((card) => [card.dataset.id, card]));
  show(list, builds.map((b) => {
    let card = kept.get(b.id);
    const print = JSON.stringify([b, state.job]);
    if (card?.print === print) return card;
    card ??= h("li", { "data-id": b.id });
    card.print = print;
    const active = b.state === "running" || b.state === "queued";
    const share = b.n_facts && b.recalled !== null ? b.recalled / b.n_facts : b.total ? b.done / b.total : 0;
    const note = b.state === "queued" ? (b.position === 1 ? "next in line" : `${b.position} in line`)
      : b.state === "running" ? [b.stage || "starting", b.recalled !== null ? `${num(b.recalled)} of ${num(b.n_facts)} facts recalled` : null].filter(Boolean).join(", ") : b.message;
    card.className = `${b.state}${b.id === state.job ? " chosen" : ""}`;
    const again = [
      h("div", { class: "row between" }, h("button", { class: "link", type: "button", "aria-current": b.id === state.job ? "true" : null, onclick: () => { state.job = b.id; remember(); jobs(); result(); } }, b.title),
        h("span", { class: `tag ${b.state}` }, words[b.state], b.seconds !== null ? ` ${duration(b.seconds)}` : "")),
      b.state === "running" ? h("div", { class: "progress", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.round(100 * share)), "aria-label": b.title }, h("i", { style: `width:${Math.max(3, 100 * share)}%` })) : null,
      h("div", { class: "row between" }, h("span", { class: b.state === "failed" ? "hint bad" : "hint" }, note),
        active ? h("button", { class: "quiet cancel", type: "button", onclick: async () => { try { await api(`/api/builds/${b.id}/cancel`, { method: "POST" }); } catch { /* it has ended */ } look(); } }, "Cancel") : null)];
    show(card, again);
    return card;
  }));
  if (!list.isConnected) show($("#jobs"), list);
}

async function result() {
  const box = $("#result"), now = builds.find((b) => b.id === state.job);
  const key = now ? `${now.id} ${now.state}` : "";
  if (key === shownResult) return;
  shownResult = key;
  box.hidden = !now || now.state !== "done";
  if (box.hidden) return;
  const found = await api(`/api/builds/${now.id}`);
  const c = found.certificate, s = c.shape, kept = c.recall[c.dtype] === 1;
  say(`${found.title} is built.`);
  const size = c.max_bits ? `${num(c.params)} non-zero weights of at most ${num(c.max_bits)} bits, depth ${num(c.depth)}, width ${num(c.width)}` : `${num(c.params)} parameters, ${num(c.bits_per_param)} bits each`;
  const shape = c.max_bits ? `variant ${c.variant}, ${c.precision}` : `${num(s.n_heads)} head${s.n_heads > 1 ? "s" : ""} of ${num(s.d_head)}, d_model ${num(s.d_model)}${s.d_mlp > 1 ? `, d_mlp ${num(s.d_mlp)}` : ""}`;
  show(box,
    h("h2", { id: "t6" }, "Certificate"),
    h("p", { class: "verdict" }, kept ? h("span", { class: "good" }, "✓ ") : h("span", { class: "bad" }, "✗ "), `${num(Math.round(c.recall[c.dtype] * c.facts))} of ${num(c.facts)} facts recalled at ${c.dtype}.`),
    h("dl", { class: "pairs" },
      h("dt", {}, "Built by"), h("dd", {}, h("a", { href: `/theorems?theorem=${c.construction}` }, c.construction), h("div", { class: "hint" }, c.theorem)),
      h("dt", {}, "Shape"), h("dd", {}, shape),
      h("dt", {}, "Size"), h("dd", {}, size),
      c.bound ? [h("dt", {}, "Bound"), h("dd", {}, `${num(c.bound)} facts${c.bound_exceeded ? " (exceeded)" : ""}`)] : null,
      c.conditioning ? [h("dt", {}, "Condition"), h("dd", {}, num(c.conditioning))] : null,
      c.chosen ? [h("dt", {}, "Chosen"), h("dd", { class: "hint" }, c.chosen)] : null,
      h("dt", {}, "Weights"), h("dd", {}, h("code", { title: c.weights_sha256 }, `sha256 ${c.weights_sha256.slice(0, 16)}…`))),
    h("table", { class: "recall" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "number format"), h("th", { scope: "col", class: "right" }, "recall"), h("th", {}, ""), h("th", { scope: "col", class: "right" }, "smallest margin"))),
      h("tbody", {}, Object.entries(c.recall).map(([name, recall]) => h("tr", {}, h("td", {}, name, name === c.dtype ? h("span", { class: "hint" }, " stored") : null), h("td", { class: `right ${recall === 1 ? "good" : ""}` }, percent(recall)), h("td", { class: "wide" }, h("div", { class: "bar" }, h("i", { style: `width:${100 * recall}%` }))), h("td", { class: "right" }, num(c.min_margin[name])))))),
    h("div", { class: "row wrap actions" }, h("a", { class: "button", href: `/ask?model=${found.id}` }, "Ask it"), h("a", { class: "button", href: `/api/builds/${found.id}/zip`, download: "" }, "Download zip")),
    h("details", {}, h("summary", {}, "The certificate as it is stored"), h("pre", { class: "full" }, JSON.stringify(c, null, 2))),
    commandLine(found.command));
}

let timer = 0;
async function look() {
  clearTimeout(timer);
  try {
    builds = (await api("/api/builds")).builds;
    if (state.job && !builds.some((b) => b.id === state.job)) state.job = null;
    jobs();
    await result();
  } catch (error) { show($("#jobs"), problem(error.message)); }
  timer = setTimeout(look, builds.some((b) => b.state === "running" || b.state === "queued") ? 400 : 4000);
}

const drop = $("#drop");
for (const kind of ["dragover", "dragenter"]) drop.addEventListener(kind, (e) => { e.preventDefault(); drop.classList.add("over"); });
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
drop.addEventListener("drop", (e) => { e.preventDefault(); take(e.dataTransfer.files[0]); });
$("#file").addEventListener("change", (e) => { take(e.target.files[0]); e.target.value = ""; });
$("#go").addEventListener("click", go);

look();
show($("#checks"), h("p", { class: "hint" }, "Waking up …"));
api("/api/warm", { method: "POST" }).catch(() => {});
try {
  const [theorems, list] = await Promise.all([api("/api/theorems"), api("/api/shipped")]);
  builders = theorems.theorems.filter((t) => t.builds && t.builds_from.some((d) => d !== "vectors"));
  shipped = list;
  options();
  facts();
  token();
  // The builder wakes up after the first check, so that the two do not compete.
  check().finally(() => api("/api/warm?builder=1", { method: "POST" }).catch(() => {}));
} catch (error) { show($("#checks"), problem(error.message)); }
