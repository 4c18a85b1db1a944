import { $, h, show, api, num, address, setAddress, commandLine, problem, drawFigure, say, sheetView, field } from "./lib.js";

const given = address();
const state = { model: given.model || null, words: given.q ? given.q.split("\t") : null };
let about = null, last = null;
const brief = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);
const remember = () => setAddress({ model: state.model, q: state.words?.join("\t") });

async function chooser(models) {
  if (!models.length) {
    show($("#models"), h("p", {}, "No model yet. ", h("a", { href: "/build" }, "Build one"), ", or start ", h("code", {}, "rote ui --dir"), " in a folder that holds model directories."));
    return;
  }
  const named = models.some((m) => m.id === state.model);
  if (!named) { state.model = models[0].id; state.words = null; }
  show($("#models"), h("select", { "aria-label": "Model", class: "full-width", onchange: (e) => { state.model = e.target.value; state.words = null; open(); } },
    models.map((m) => h("option", { value: m.id, selected: m.id === state.model }, `${m.name}${m.name.includes(m.construction) ? "" : `, ${m.construction}`} – ${num(m.facts)} facts`))));
  // Where nobody chose, the first model that can be loaded is shown.
  for (const m of named ? [] : models) {
    $("#models select").value = state.model = m.id;
    if (await open()) return;
  }
  if (!named) $("#models select").value = state.model = models[0].id;
  open();
}

/** Whether the model could be loaded. */
async function open() {
  remember();
  show($("#about"), "Loading …");
  show($("#inside"));
  $("#answer").hidden = true;
  try {
    about = await api(`/api/models/${state.model}`);
  } catch (error) {
    show($("#about"), problem(error.message));
    $("#question").hidden = true;
    return false;
  }
  const c = about.certificate;
  if (about.vectors) { vectors(c); return true; }
  $("#q2").textContent = "Context";
  show($("#about"), `${num(c.facts)} facts by ${c.construction}, ${num(c.params)} parameters, ${c.dtype}; ${about.vocab === null ? "asked in plain text" : `contexts of ${about.context} ${({ cells: "token", words: "word", chars: "character" })[about.tokens]}${about.context > 1 ? "s" : ""}, ${num(about.vocab)} tokens`}${about.facts_known ? "" : "; its facts are not at hand"}.`);
  $("#about").append(h("details", {}, h("summary", {}, "Certificate"), sheetView(about.sheet)));
  $("#question").hidden = false;
  inputs();
  show($("#examples"), about.examples.length ? "Try " : "", about.examples.slice(0, 4).map((e) => h("button", { type: "button", class: "chip", onclick: () => { state.words = about.tokens === "chars" ? [e.join("")] : e; inputs(); ask(); } }, e.join(about.tokens === "chars" ? "" : " · "))));
  const trials = Object.entries(about.trials);
  if (trials.length) $("#examples").append(...trials.map(([what, text]) => h("button", { type: "button", class: "chip", title: text, onclick: () => { state.words = [text]; inputs(); ask(); } }, what)));
  if (state.words) ask();
  return true;
}

/** One box a token where tokens are cells and few; else one box for the whole text. */
const single = () => about.vocab === null || about.tokens !== "cells" || about.context > 8;

function inputs() {
  if (single()) {
    show($("#inputs"), combo(0, state.words?.join(about.tokens === "chars" ? "" : " ") ?? "", about.vocab === null || about.tokens === "chars" ? "text" : "tokens"));
  } else {
    show($("#inputs"), Array.from({ length: about.context }, (_, i) => combo(i, state.words?.[i] ?? "", `token ${i + 1}`)));
  }
}

/** A text box with a list of completions, as the ARIA practices describe it. */
function combo(position, value, label) {
  const list = h("ul", { class: "options", role: "listbox", id: `list-${position}`, "aria-label": `Completions for ${label}`, hidden: true });
  const box = h("input", { type: "text", role: "combobox", "aria-label": label, placeholder: label, "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list", value, spellcheck: "false", autocapitalize: "off", id: `token-${position}` });
  let active = -1, wish = 0;
  const parts = () => (about.tokens === "chars" ? ["", box.value.slice(-1)] : single() ? [box.value.replace(/\S*$/, ""), box.value.match(/\S*$/)[0]] : ["", box.value]);
  const close = () => { list.hidden = true; active = -1; box.setAttribute("aria-expanded", "false"); box.removeAttribute("aria-activedescendant"); };
  const choose = (token) => { box.value = parts()[0] + token; close(); box.focus(); };
  const mark = (next) => {
    const items = [...list.children];
    if (!items.length) return;
    active = (next + items.length) % items.length;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    box.setAttribute("aria-activedescendant", items[active].id);
    items[active].scrollIntoView({ block: "nearest" });
  };
  const complete = async () => {
    if (about.tokens === "chars") return;
    const mine = (wish += 1);
    const [before, prefix] = parts();
    const at = single() ? before.split(/\s+/).filter(Boolean).length : position;
    let tokens;
    try { ({ tokens } = await api(`/api/models/${state.model}/complete?${new URLSearchParams({ prefix, position: at })}`)); } catch { return; }
    if (mine !== wish || document.activeElement !== box) return;
    show(list, tokens.map((token, i) => h("li", { role: "option", id: `option-${position}-${i}`, "aria-selected": "false", onpointerdown: (e) => { e.preventDefault(); choose(token); } }, token)));
    list.hidden = !tokens.length || (tokens.length === 1 && tokens[0] === prefix);
    box.setAttribute("aria-expanded", String(!list.hidden));
    active = -1;
  };
  box.addEventListener("input", complete);
  box.addEventListener("focus", complete);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown") { e.preventDefault(); if (list.hidden) complete(); else mark(active + 1); }
    else if (e.key === "ArrowUp") { e.preventDefault(); mark(active - 1); }
    else if (e.key === "Escape") close();
    else if (e.key === "Enter") {
      // A list that is still on its way must not open over the answer.
      wish += 1;
      if (active >= 0) { e.preventDefault(); choose(list.children[active].textContent); } else close();
    }
    else if (e.key === "Tab" && active >= 0) choose(list.children[active].textContent);
  });
  return h("div", { class: `combo${single() ? " single" : ""}` }, box, list);
}

/** A model of vectors is asked about its examples: by number, and with other numbers in the query. */
function vectors(c) {
  const v = about.vectors;
  show($("#about"), `${num(v.examples)} examples of ${num(v.width)} numbers by ${c.construction}, ${num(c.params)} parameters, ${c.dtype}.`);
  $("#about").append(h("details", {}, h("summary", {}, "Certificate"), sheetView(about.sheet)));
  $("#question").hidden = false;
  $("#q2").textContent = "Example";
  const at = h("input", { type: "text", inputmode: "numeric", id: "example", value: state.words?.[0] ?? "1" });
  const query = h("textarea", { id: "query", rows: "3", spellcheck: "false", placeholder: "its own" });
  show($("#inputs"), field(`Number, 1 to ${num(v.examples)}`, at), field("Query", query, "Leave it empty for the example's own, or change it and see how far the answer holds."));
  at.addEventListener("change", () => { query.value = ""; });
  show($("#examples"), "Try ", [...new Set([1, Math.ceil(v.examples / 2), v.examples])].map((n) => h("button", { type: "button", class: "chip", onclick: () => { at.value = n; query.value = ""; example(); } }, `example ${num(n)}`)));
  if (state.words) example();
}

async function example() {
  const typed = $("#query").value.trim();
  state.words = [$("#example").value.trim()];
  remember();
  show($("#ask-problem"));
  let found;
  try {
    const query = typed ? typed.split(/[\s,;]+/).filter(Boolean).map(Number) : null;
    if (!/^\d+$/.test(state.words[0])) throw new Error("type the number of an example.");
    if (query?.some((x) => !Number.isFinite(x))) throw new Error("the query has something that is no number.");
    found = await api(`/api/models/${state.model}/example`, { body: { number: Number(state.words[0]), query } });
  } catch (error) { show($("#ask-problem"), problem(error.message)); $("#answer").hidden = true; return; }
  $("#query").value = found.query.map((x) => String(Number(x.toPrecision(6)))).join(", ");
  const text = (value) => (Array.isArray(value) ? value.map((x) => num(x, 6)).join(", ") : `class ${num(value)}`);
  $("#answer").hidden = false;
  say(`Answer: ${text(found.said)}`);
  show($("#answer"), h("h2", { id: "q3" }, "Answer"), h("p", { class: "verdict" }, h("b", { class: "said" }, text(found.said)), " ", h("span", { class: `tag ${found.recalled ? "done" : "failed"}` }, found.recalled ? "as in the table" : `the table has ${text(found.truth)}`)),
    h("p", { class: "hint" }, found.moved ? `The query was moved by ${num(found.moved)}.` : "The example's own query.", found.lead === null ? "" : ` The right class leads by ${num(found.lead)}.`), commandLine(found.command));
}

async function ask() {
  const boxes = [...document.querySelectorAll("#inputs input")].map((b) => b.value.trim());
  state.words = single() ? boxes : boxes.filter(Boolean);
  if (!state.words.join("")) return;
  remember();
  show($("#ask-problem"));
  try { last = await api(`/api/models/${state.model}/ask`, { body: { words: state.words, top: 8 } }); }
  catch (error) { show($("#ask-problem"), problem(error.message)); $("#answer").hidden = true; show($("#inside")); return; }
  answer(last);
  inside(last);
}

function answer(found) {
  const box = $("#answer");
  box.hidden = false;
  const said = (found.labels ? found.answers : found.answers.slice(0, 1)).map((a) => a.token).join(" ");
  const known = found.answers.some((a) => a.true !== null);
  const unknown = found.answers[0].unknown;
  const share = (p) => `${(100 * p).toFixed(2)} %`;
  const tag = (kind, words) => h("span", { class: `tag ${kind}` }, words);
  const verdict = found.divergence !== null ? tag("", `${num(found.divergence)} nats from the table`)
    : found.truth !== null ? (said === found.truth ? tag("done", "a fact, recalled") : tag("failed", `a fact: ${found.truth}`))
    : unknown ? (found.facts_known ? tag("done", "not one of the facts, and told so") : null)
    : found.facts_known ? tag("", "not one of the facts: the answer means nothing")
    : found.answers[0].known === false ? tag("", "not in the table that this was built from: the answer means nothing") : null;
  say(`Answer: ${said}`);
  show(box, h("h2", { id: "q3" }, "Answer"), h("p", { class: "verdict" }, h("b", { class: said.length > 80 ? "said long" : "said" }, said), " ", verdict),
    found.before === null ? null : h("table", { class: "beside" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "before the graft"), h("th", { scope: "col" }, "after"))), h("tbody", {}, h("tr", {}, h("td", {}, found.before), h("td", {}, said)))),
    unknown ? null : found.labels ? h("p", { class: "hint" }, "This model gives labels, and no second guess.") : h("table", { class: "answers" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "answer"), h("th", {}, ""), h("th", { scope: "col", class: "right" }, "probability"), known ? h("th", { scope: "col", class: "right" }, "true") : null, h("th", { scope: "col", class: "right" }, "logit"))),
      h("tbody", {}, found.answers.map((a) => h("tr", {}, h("td", {}, h("span", { class: "clamp", title: a.token.length > 60 ? a.token : null }, a.token)), h("td", { class: "wide" }, h("div", { class: "bar" }, h("i", { style: `width:${100 * a.probability}%` }))), h("td", { class: "right" }, share(a.probability)), known ? h("td", { class: "right" }, share(a.true)) : null, h("td", { class: "right" }, num(a.logit, 5)))))),
    commandLine(found.command));
}

function inside(found) {
  show($("#inside"), found.heads ? headsPanel(found) : null, locatedPanel(found), found.digits ? digitsPanel(found) : null, nearPanel(found));
  if (found.digits) stepThrough(found);
  draw(found);
}

async function draw(found) {
  if (found.heads) await drawFigure(found.heads.figure, "heads", Math.min(400, 130 + 26 * found.context.length));
  if (found.digits) await drawFigure(found.digits.figure, "digits", 190);
}

function headsPanel(found) {
  const v = found.heads;
  const parts = v.heads.filter((x) => x.part !== null);
  const serving = [...parts].sort((a, b) => b.part - a.part).slice(0, 5);
  const saturated = v.heads.filter((x) => x.saturated);
  const name = (x) => (v.heads.some((y) => y.layer) ? `layer ${x.layer + 1}, head ${x.number + 1}` : `head ${x.number + 1}`);
  return h("section", { class: "panel", "aria-labelledby": "i1" }, h("h2", { id: "i1" }, "Heads"),
    h("p", {}, h("b", {}, num(v.n_saturated)), ` of ${num(v.heads.length)} head${v.heads.length > 1 ? "s" : ""} saturated (one token has all the weight but a millionth)`, saturated.length ? h("span", { class: "hint" }, `: ${saturated.slice(0, 12).map((x) => x.number + 1).join(", ")}${saturated.length > 12 ? ", …" : ""}`) : "", "."),
    h("div", { id: "heads-0", class: "chart short", role: "img", "aria-label": "Attention weight of every head on every token of the context" }),
    serving.length ? [h("h3", {}, "What the heads add to the lead"), h("p", { class: "hint" }, `The lead of “${brief(v.answer)}” over “${brief(v.rival)}” is ${num(v.lead)}: a sum over the heads, the last token's own vector (${num(v.skip)})${v.mlp === null ? "" : ` and the MLP (${num(v.mlp)})`}.`),
      h("table", { class: "serving" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "head"), h("th", { scope: "col", class: "right" }, "part of the lead"), h("th", { scope: "col" }, "looks at"), h("th", { scope: "col", class: "right" }, "weight"))),
        h("tbody", {}, serving.map((x) => { const at = x.weights.indexOf(Math.max(...x.weights)); return h("tr", {}, h("td", {}, name(x), x.saturated ? h("span", { class: "tag" }, "saturated") : null), h("td", { class: "right" }, num(x.part)), h("td", {}, found.context[at]), h("td", { class: "right" }, num(x.weights[at]))); })))] : null);
}

/** What rote locate says: parts of the model set to zero, one at a time. */
function locatedPanel(found) {
  const l = found.located;
  if (!l || !l.parts.length) return null;
  const reading = l.parts.some((p) => p.readers !== null);
  const share = (x) => (x ? `${num(100 * x, 3)} %` : "none");
  return h("section", { class: "panel", "aria-labelledby": "i4" }, h("h2", { id: "i4" }, "Who serves this answer?"),
    h("p", {}, l.said, h("span", { class: "tag" }, l.exact ? "exact" : "measured")),
    h("table", { class: "serving" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "without"), h("th", { scope: "col" }, "weights"), reading ? h("th", { scope: "col", class: "right" }, "facts that read it") : null, h("th", { scope: "col" }, "this fact"), h("th", { scope: "col", class: "right" }, "others lost"))),
      h("tbody", {}, l.parts.slice(0, 8).map((p) => h("tr", {}, h("td", {}, p.name), h("td", {}, h("code", {}, p.weights)), reading ? h("td", { class: "right" }, num(p.readers)) : null, h("td", {}, p.needed ? "lost" : "kept"), h("td", { class: "right" }, share(p.others_lost)))))),
    h("p", { class: "hint" }, `Others lost: of ${num(l.facts_run)} other facts, run with the part set to zero.`));
}

function digitsPanel(found) {
  const d = found.digits;
  const adds = [...d.numbers, d.key].every((n) => /^-?\d+$/.test(n)) && d.numbers.reduce((sum, n) => sum + BigInt(n), 0n) === BigInt(d.key);
  const tokens = found.context.slice(found.context.length - d.numbers.length);
  return h("section", { class: "panel", "aria-labelledby": "i2" }, h("h2", { id: "i2" }, "Digits, shifted out"),
    h("p", {}, `Every token is a number; attention hands on their mean; ${adds ? "the sum is the key" : "the sum and the last token's own number make the key of its label"}.`),
    h("div", { class: "sum", "aria-label": "The sum" }, tokens.map((t, i) => [i ? h("span", { class: "arrow" }, "+") : null, h("span", { class: "term" }, h("span", { class: "token" }, t), h("code", {}, d.numbers[i]))]), h("span", { class: "arrow" }, "→"), h("span", { class: "term" }, h("span", { class: "token target" }, "key"), h("code", {}, d.key))),
    d.steps.length ? [h("p", { class: "hint" }, "The key finds one long weight. Its digits leave it one after the other by tent maps; each is a key and a label, and the one whose key is ours counts."),
      h("ol", { class: "digits" }, d.steps.map((s) => h("li", { class: s.meets ? "meets" : "" }, h("div", { class: "bits" }, h("b", {}, s.bits), h("span", {}, s.rest), s.n_rest > s.rest.length ? h("span", {}, `… ${num(s.n_rest - s.rest.length)} more`) : null), h("div", { class: "hint" }, `key ${num(s.key)}, label ${num(s.label)} = ${s.token}`, s.meets ? h("span", { class: "tag done" }, "this key") : null))))] : h("p", { class: "hint" }, `Variant ${d.variant} keeps tables of bits instead of keys: below, the longest fraction in every layer loses bit after bit.`),
    h("h3", {}, `Bits behind the point, through ${num(d.layers)} layers of the second network`),
    h("div", { id: "digits-0", class: "chart short", role: "img", "aria-label": "Bits of the longest fraction, layer by layer" }),
    h("div", { class: "stepper" }, h("label", { for: "layer" }, "Layer ", h("b", { id: "layer-now" })), h("input", { id: "layer", type: "range", min: "1", max: String(d.layers), value: "1" }), h("code", { id: "layer-bits", class: "bits" })));
}

function stepThrough(found) {
  const d = found.digits, range = $("#layer");
  const step = () => {
    const i = Number(range.value) - 1;
    $("#layer-now").textContent = `${i + 1}, ${num(d.lengths[i])} bits`;
    $("#layer-bits").textContent = d.lengths[i] ? `0.${d.fractions[i]}${d.lengths[i] > d.fractions[i].length ? "…" : ""}` : "whole numbers only";
  };
  range.value = String(Math.max(1, d.lengths.indexOf(Math.max(...d.lengths)) + 1));
  range.addEventListener("input", step);
  step();
}

function nearPanel(found) {
  if (!found.near.length) return null;
  const word = (p) => found.context[p];
  return h("section", { class: "panel", "aria-labelledby": "i3" }, h("h2", { id: "i3" }, "Near misses: one token changed"),
    found.near.map((n) => {
      const wrong = n.facts.filter((f) => !f.right);
      return h("div", { class: "near" }, h("h3", {}, `Instead of “${word(n.position)}”`),
        h("p", {}, `${num(n.tried)} other token${n.tried > 1 ? "s" : ""} tried; ${num(n.same)} give${n.same === 1 ? "s" : ""} the same answer. `, n.n_facts ? h("span", { class: n.n_right === n.n_facts ? "good" : "bad" }, `${num(n.n_right)} of ${num(n.n_facts)} that are facts are told apart.`) : h("span", { class: "hint" }, "None of them is a fact.")),
        n.common[0][1] === 1 ? n.tried > 1 ? h("p", { class: "hint" }, "All answers differ.") : null : h("div", { class: "common", "aria-label": "Most common answers" }, n.common.slice(0, 6).map(([token, count]) => h("div", { class: "row" }, h("span", { class: "name", title: token }, token), h("div", { class: "bar" }, h("i", { style: `width:${(100 * count) / n.tried}%` })), h("span", { class: "right" }, num(count))))),
        n.facts.length ? h("details", { open: wrong.length > 0 || null }, h("summary", { class: "hint" }, wrong.length ? "the ones that are confused" : "the facts among them"), h("ul", { class: "facts" }, (wrong.length ? wrong : n.facts).slice(0, 12).map((f) => h("li", {}, h("span", { class: "token" }, f.token), h("span", { class: "arrow" }, "→"), h("span", { class: `token ${f.right ? "target" : "wrong"}` }, f.answer), f.right ? null : h("span", { class: "hint" }, ` should be ${f.truth}`))))) : null);
    }));
}

$("#form").addEventListener("submit", (e) => { e.preventDefault(); if (about?.vectors) example(); else ask(); });
addEventListener("themechange", () => { if (last && $("#inside").children.length) draw(last); });
api("/api/warm", { method: "POST" }).catch(() => {});
try { chooser((await api("/api/models")).models); } catch (error) { show($("#models"), problem(error.message)); }
