import { $, h, show, api, num, bytes, duration, address, setAddress, newest, commandLine, problem, field, say, sheetView } from "./lib.js";

const given = address();
const OPTION = "option.";
const state = {
  shipped: given.shipped || (given.upload ? null : "elements"), upload: given.upload || null, tokens: given.tokens || null, target: given.target?.split("\t") ?? null,
  columns: given.columns?.split("\t") ?? null, weight: given.weight || null, on_conflict: given.on_conflict || "error", on_missing: given.on_missing || "error", with: given.with || "auto", job: given.job || null,
  arch: given.arch || null, dtype: given.dtype || null, seed: 0, partial: false, drop_unfit: false, shape: {}, options: {},
};
let shipped = [], constructions = [], architectures = [], file = null, builds = [], shownResult = "", kind = null, read = null;

const remember = () => setAddress({
  shipped: state.shipped, upload: state.upload, tokens: state.tokens, target: state.target?.join("\t"), columns: state.columns?.join("\t"), weight: state.weight,
  on_conflict: state.on_conflict === "error" ? null : state.on_conflict, on_missing: state.on_missing === "error" ? null : state.on_missing, with: state.with === "auto" ? null : state.with,
  arch: state.arch, dtype: state.dtype, ...Object.fromEntries(Object.entries(state.options).map(([name, value]) => [OPTION + name, String(value)])), job: state.job,
});
const reading = () => ({
  shipped: state.shipped, upload: state.upload, tokens: state.tokens, target: state.target, columns: state.columns, weight: state.weight,
  on_conflict: state.on_conflict, on_missing: state.on_missing, with: state.with, options: state.options,
});

function pick(changes) {
  Object.assign(state, changes, { tokens: null, target: null, columns: null, weight: null });
  read = null;
  facts();
  token();
  check();
}

function facts() {
  show($("#shipped"), shipped.map((s) => h("label", { class: `card${s.installed ? "" : " silent"}`, title: s.installed ? s.description : `needs ${s.hint}` },
    h("input", { type: "radio", name: "shipped", value: s.name, checked: s.name === state.shipped, disabled: !s.installed, onchange: () => { file = null; pick({ shipped: s.name, upload: null }); show($("#upload")); } }),
    h("span", { class: "strong" }, s.name), h("span", { class: "hint" }, `${num(s.rows)} facts · ${s.columns.join(", ")}`))));
}

async function take(chosen) {
  if (!chosen) return;
  show($("#upload"), h("p", { class: "hint" }, `Reading ${chosen.name} …`));
  try {
    if (chosen.size > 20e6) throw new Error(`${chosen.name} is ${bytes(chosen.size)}, and this page takes 20 MB; rote build on the command line takes more.`);
    file = await api(`/api/uploads?name=${encodeURIComponent(chosen.name)}`, { body: chosen, raw: true });
    show($("#upload"), h("p", { class: "row wrap" }, h("b", { class: "filename" }, file.label), h("span", { class: "hint" }, [...(file.columns.length ? [`${num(file.rows)} rows`, `${file.columns.length} columns`] : []), bytes(file.size)].join(", "))));
    pick({ shipped: null, upload: file.id });
  } catch (error) {
    show($("#upload"), problem(error.message));
    say(error.message);
  }
}

/** How the file is read; what was not chosen here is as the reader found it. */
function token() {
  const own = shipped.find((s) => s.name === state.shipped);
  const usual = own ? own.tokens : "cells";
  const columns = own ? own.columns : file?.columns || [];
  const cuts = { cells: "whole cells", words: "words", chars: "characters" };
  const change = (values) => { Object.assign(state, values); token(); check(); };
  show($("#cuts"), columns.length ? Object.entries(cuts).map(([cut, label]) => h("button", { type: "button", "aria-pressed": String((state.tokens || usual) === cut), onclick: () => change({ tokens: cut === usual ? null : cut }) }, label)) : null);
  const target = state.target || (read?.target.length ? read.target : columns.slice(-1));
  const weight = state.weight || read?.weight || "";
  const others = columns.filter((c) => !target.includes(c) && c !== weight);
  const chosen = state.columns || (read?.columns.length ? read.columns : others);
  const select = (label, values, now, onchange) => field(label, h("select", { onchange: (e) => onchange(e.target.value) }, values.map(([v, t]) => h("option", { value: v, selected: v === now }, t))));
  const further = columns.filter((c) => c !== target[0] && c !== weight);
  show($("#columns"), columns.length ? h("div", { class: "row wrap columns" },
    h("fieldset", {}, h("legend", {}, "Context"), others.map((c) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.includes(c), onchange: (e) => {
      const next = others.filter((d) => (d === c ? e.target.checked : chosen.includes(d)));
      change({ columns: next.length ? next : null });
    } }), c))),
    select("Target", columns.map((c) => [c, c]), target[0], (v) => change({ target: [v], columns: null })),
    further.length > 1 && !weight ? h("fieldset", {}, h("legend", {}, "Further answers"), further.map((c) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: target.includes(c), onchange: (e) => {
      const more = further.filter((d) => (d === c ? e.target.checked : target.includes(d)));
      change({ target: more.length || state.target ? [target[0], ...more] : null, columns: null });
    } }), c))) : null,
    columns.length > 2 ? select("Counts", [["", "none"], ...columns.map((c) => [c, c])], weight, (v) => change({ weight: v || null, columns: null })) : null,
    select("Contradictions", [["error", "refuse"], ["first", "keep the first"], ["last", "keep the last"]], state.on_conflict, (v) => change({ on_conflict: v })),
    select("Empty cells", [["error", "refuse"], ["skip", "leave the row out"], ["token", "a token for them"]], state.on_missing, (v) => change({ on_missing: v }))) : null,
    read?.key && !read.unread?.length ? h("p", { class: "hint" }, `“${read.key}” alone tells all rows apart. `, h("button", { class: "link", type: "button", onclick: () => change({ target: columns.filter((c) => c !== read.key && c !== weight), columns: null }) }, "Make each of the other columns an answer")) : null);
}

const check = newest(async () => {
  remember();
  $("#checks").setAttribute("aria-busy", "true");
  $("#go").disabled = true;
  try {
    const found = await api("/api/check", { body: reading() });
    show($("#sample"), h("ul", { class: "facts", "aria-label": "The first facts" }, found.first.slice(0, 5).map((fact) => h("li", {}, h("span", { class: "token" }, fact)))));
    findings(found);
    read = found.read;
    token();
    if (found.kind !== kind) { kind = found.kind; options(); }
    $("#go").disabled = false;
  } catch (error) {
    show($("#sample"));
    show($("#checks"), problem(error.message));
  }
  $("#checks").removeAttribute("aria-busy");
});

function findings(found) {
  const r = found.read;
  const notes = [r?.n_duplicates ? `${num(r.n_duplicates)} exact duplicates dropped` : null, r?.n_conflicts_resolved ? `${num(r.n_conflicts_resolved)} contradictions settled` : null, r?.n_missing ? `${num(r.n_missing)} facts with an empty cell ${state.on_missing === "skip" ? "left out" : "got a token for it"}` : null, r?.n_padded ? `${num(r.n_padded)} contexts padded on the left` : null, r?.weight && !state.weight ? `column “${r.weight}” is taken for counts` : null].filter(Boolean);
  const mark = (f) => (f.theorems.length === 0 ? ["·", "note"] : f.holds === true ? ["✓", "met"] : f.holds === false ? ["✗", "not-met"] : ["?", "unknown"]);
  const verdicts = [[true, "may be used"], [null, "open"], [false, "may not be used"]];
  const sizes = Object.entries(found.table).filter(([name]) => name !== "name" && name !== "n_facts");
  show($("#checks"),
    h("p", {}, h("b", {}, num(found.table.n_facts)), ` ${found.noun}, ${found.extent}.`, notes.length ? h("span", { class: "hint" }, ` ${notes.join("; ")}.`) : null),
    found.findings ? h("ul", { class: "conditions" }, found.findings.map((f) => {
      const [sign, word] = mark(f);
      return h("li", { class: word }, h("span", { class: "mark", "aria-label": word }, sign), h("div", {}, h("b", {}, f.assumption), ` ${f.explanation}`,
        f.offenders.length ? h("details", {}, h("summary", { class: "hint" }, `first offenders, ${num(f.n_offenders)} in all`), h("ul", { class: "offenders" }, f.offenders.map((o) => h("li", {}, o)))) : null));
    })) : h("p", { class: "hint" }, "No theorem makes an assumption about such tables that could be checked."),
    found.usable.length ? h("dl", { class: "pairs tight" }, verdicts.map(([verdict, head]) => {
      const of = found.usable.filter((u) => u.verdict === verdict);
      return of.length ? [h("dt", {}, head), h("dd", {}, of.map((u, i) => [i ? ", " : "", h("a", { href: `/theorems?theorem=${u.theorem}`, title: u.reasons.join(", ") || null }, u.theorem)]))] : null;
    })) : null,
    h("details", {}, h("summary", {}, "Everything about the table"), h("dl", { class: "pairs tight" }, sizes.map(([name, value]) => [h("dt", {}, name.replace(/^n_/, "").replaceAll("_", " ")), h("dd", {}, num(value))]))),
    found.plans.length || found.refused.length ? h("details", {}, h("summary", {}, "Smallest shapes planned for it"), h("table", {}, h("tbody", {}, found.plans.map((p) => h("tr", {}, h("td", {}, p.construction), h("td", { class: "right" }, `${num(p.params)} parameters`), h("td", { class: "right" }, bytes(p.bytes)))))), found.refused.map((n) => h("p", { class: "hint silent" }, `${n.construction}: ${n.reason.replace(/\.$/, "")}.`))) : null,
    commandLine(found.command));
}

/** The constructions that the choice stands for: the one that is named, or all that auto would try. */
const able = () => (state.with === "auto" ? constructions.filter((c) => c.automatic && c.arch === (state.arch || architectures[0]) && (!kind || c.accepts.includes(kind))) : constructions.filter((c) => c.construction === state.with));
const union = (lists) => [...new Map(lists.flat().map((one) => [one.name ?? one, one])).values()];

/** One control for each field of the Options records of the constructions in question. */
function options() {
  const chosen = able(), fields = union(chosen.map((c) => c.options));
  for (const name of Object.keys(state.options)) if (!fields.some((f) => f.name === name)) delete state.options[name];
  const set = (name, value) => {
    if (value === null || value === false || Number.isNaN(value)) delete state.options[name]; else state.options[name] = value;
    check();
  };
  const typed = { whole: (t) => parseInt(t, 10), number: (t) => parseFloat(t), text: (t) => t };
  const option = (f) => {
    const usual = f.default === null ? "" : String(f.default);
    const box = h("input", { type: "text", inputmode: f.form === "text" ? null : "decimal", placeholder: usual || "–", value: String(state.options[f.name] ?? ""), onchange: () => {
      set(f.name, box.value.trim() ? typed[f.form](box.value.trim()) : null);
      box.value = state.options[f.name] ?? "";
    } });
    const list = f.choices ? h("select", { onchange: (e) => set(f.name, e.target.value || null) }, ["", ...f.choices].map((v) => h("option", { value: v, selected: v === (state.options[f.name] ?? "") }, v || "–"))) : null;
    return field(f.name, list ?? box, f.help);
  };
  const flag = (f) => h("label", { class: "check flag" }, h("input", { type: "checkbox", checked: state.options[f.name] === true, onchange: (e) => set(f.name, e.target.checked) }), h("span", {}, h("b", {}, f.name), ` ${f.help}`));
  const size = (name) => {
    const box = h("input", { type: "text", inputmode: "numeric", placeholder: "planned", value: String(state.shape[name] ?? ""), onchange: () => { state.shape[name] = /^\d+$/.test(box.value.trim()) ? Number(box.value) : null; } });
    return field(name === "heads" ? "Heads" : name, box);
  };
  const choice = (name, label, values, then) => field(label, h("select", { onchange: (e) => { state[name] = e.target.value || null; remember(); then?.(); } }, values.map(([v, t]) => h("option", { value: v, selected: (state[name] || "") === v }, t))));
  const one = state.with === "auto" ? null : chosen[0];
  const native = [...new Set(chosen.map((c) => c.native))];
  const groups = [...new Set(constructions.map((c) => c.accepts.join(" or ")))];
  const flags = fields.filter((f) => f.form === "flag");
  const opened = $("#options details")?.open;
  show($("#options"),
    field("Construction", h("select", { id: "with", onchange: (e) => { state.with = e.target.value; state.dtype = state.arch = null; state.shape = {}; options(); check(); } },
      h("option", { value: "auto" }, "auto: the fewest parameters that recall everything"),
      groups.map((group) => h("optgroup", { label: `from ${group}` }, constructions.filter((c) => c.accepts.join(" or ") === group).map((c) => h("option", { value: c.construction, selected: c.construction === state.with }, `${c.construction}: ${c.title}`))))), one?.statement),
    h("details", { class: "advanced", open: opened || Object.keys(state.options).length > 0 || null }, h("summary", {}, "Shape, format, options, seed"),
      h("div", { class: "grid3" },
        union(chosen.map((c) => c.shape)).map(size),
        choice("dtype", "Recall at", [["", native.length === 1 ? native[0] : "its own format"], ...union(chosen.map((c) => c.dtypes)).filter((d) => native.length !== 1 || d !== native[0]).map((d) => [d, d])]),
        one ? null : choice("arch", "Architecture", architectures.map((a, i) => [i ? a : "", a]), () => { state.shape = {}; options(); }),
        field("Seed", h("input", { type: "text", inputmode: "numeric", value: String(state.seed), onchange: (e) => { state.seed = Number(e.target.value.replace(/\D/g, "")) || 0; e.target.value = state.seed; } }))),
      h("div", { class: "grid2" }, fields.filter((f) => f.form !== "flag").map(option)),
      h("div", { class: "flags" }, flags.map(flag), h("label", { class: "check flag" }, h("input", { type: "checkbox", checked: state.partial, onchange: (e) => { state.partial = e.target.checked; } }), h("span", {}, h("b", {}, "partial"), " Keep a model that loses facts.")),
        h("label", { class: "check flag" }, h("input", { type: "checkbox", checked: state.drop_unfit, onchange: (e) => { state.drop_unfit = e.target.checked; } }), h("span", {}, h("b", {}, "drop unfit"), " Leave out facts that the construction cannot hold, and list them.")))));
}

/** Options that came with the address, each as its form says. */
function optionsOfAddress() {
  const forms = new Map(constructions.flatMap((c) => c.options).map((f) => [f.name, f.form]));
  for (const [key, value] of Object.entries(given)) {
    const name = key.startsWith(OPTION) ? key.slice(OPTION.length) : null;
    if (forms.has(name)) state.options[name] = forms.get(name) === "text" ? value : forms.get(name) === "flag" ? value === "true" : Number(value);
  }
  if (!constructions.some((c) => c.construction === state.with)) state.with = "auto";
}

async function go() {
  show($("#go-problem"));
  try {
    const { id } = await api("/api/builds", { body: { ...reading(), ...state.shape, dtype: state.dtype, arch: state.arch, seed: state.seed, partial: state.partial, drop_unfit: state.drop_unfit } });
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
  const c = found.certificate, sheet = found.sheet, kept = Math.round(c.recall[c.dtype] * c.facts);
  const stated = constructions.find((one) => one.construction === c.construction)?.statement;
  say(`${found.title} is built.`);
  show(box,
    h("h2", { id: "t6" }, "Certificate"),
    h("p", { class: "verdict" }, c.passed ? h("span", { class: "good" }, "✓ ") : h("span", { class: "bad" }, "✗ "), `${num(kept)} of ${num(c.facts)} facts recalled at ${c.dtype}.`),
    sheetView(sheet),
    h("dl", { class: "pairs" },
      h("dt", {}, "Built by"), h("dd", {}, stated ? h("a", { href: `/theorems?theorem=${c.construction}` }, c.construction) : c.construction, h("div", { class: "hint" }, c.theorem)),
      c.conditioning ? [h("dt", {}, "Condition"), h("dd", {}, num(c.conditioning))] : null,
      c.chosen ? [h("dt", {}, "Chosen"), h("dd", { class: "hint" }, c.chosen)] : null,
      h("dt", {}, "Weights"), h("dd", {}, h("code", { title: c.weights_sha256 }, `sha256 ${c.weights_sha256.slice(0, 16)}…`))),
    h("div", { class: "row wrap actions" }, found.speaks ? h("a", { class: "button", href: `/ask?model=${found.id}` }, "Ask it") : null, h("a", { class: "button", href: `/api/builds/${found.id}/zip`, download: "" }, "Download zip")),
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

show($("#checks"), h("p", { class: "hint" }, "Waking up …"));
api("/api/warm", { method: "POST" }).catch(() => {});
try {
  [{ constructions, architectures }, shipped] = await Promise.all([api("/api/constructions"), api("/api/shipped")]);
  look();
  optionsOfAddress();
  options();
  facts();
  token();
  // The builder wakes up after the first check, so that the two do not compete.
  check().finally(() => api("/api/warm?builder=1", { method: "POST" }).catch(() => {}));
} catch (error) { show($("#checks"), problem(error.message)); }
