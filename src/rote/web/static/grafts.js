import { $, h, show, api, num, address, setAddress, commandLine, problem, say, sheetView } from "./lib.js";

const given = address();
const state = { graft: given.graft || null, q: given.q || null };
const remember = () => setAddress({ graft: state.graft, q: state.q });
const kinds = { stored: "Stored facts", reworded: "The first one in other words", unknown: "Keys that no fact has", other: "Other things" };
let questions = [], speaking = null;

async function chooser() {
  const { grafts } = await api("/api/grafts");
  if (!grafts.length) {
    show($("#grafts"), h("p", {}, "No graft here. Write facts into a model with ", h("code", {}, "rote graft MODEL FACTS -o DIR"), ", and start ", h("code", {}, "rote ui --dir"), " in the folder that holds DIR."));
    return;
  }
  if (!grafts.some((g) => g.id === state.graft)) { if (state.graft) state.q = null; state.graft = grafts[0].id; }
  show($("#grafts"), h("select", { "aria-label": "Graft", class: "full-width", onchange: (e) => { state.graft = e.target.value; state.q = null; open(); } },
    grafts.map((g) => h("option", { value: g.id, selected: g.id === state.graft }, `${g.name} – ${num(g.facts)} facts`))), h("div", { id: "about", class: "hint" }));
  open();
}

async function open() {
  remember();
  speaking?.abort();
  for (const part of ["#question", "#answer", "#certificate"]) $(part).hidden = true;
  show($("#about"), "Loading …");
  let about;
  const wanted = state.graft;
  try { about = await api(`/api/grafts/${wanted}`); } catch (error) { if (wanted === state.graft) show($("#about"), problem(error.message)); return; }
  if (wanted !== state.graft) return;
  const c = about.certificate;
  show($("#about"), `${num(c.facts)} facts in ${c.options?.model ?? "a pretrained model"}, by ${c.construction}.`);
  questions = about.questions;
  show($("#questions"), Object.entries(kinds).map(([kind, head]) => {
    const some = questions.filter((one) => one.kind === kind);
    return some.length ? h("div", { class: "examples kinds" }, h("h3", {}, head), some.map((one) => h("button", { type: "button", class: "chip", title: one.text, onclick: () => choose(one) }, one.about ? h("span", { class: "hint" }, `${one.about}: `) : null, one.text))) : null;
  }));
  $("#question").hidden = $("#certificate").hidden = false;
  show($("#certificate"), h("h2", { id: "g4" }, "Certificate"), sheetView(about.sheet), h("details", {}, h("summary", {}, "The certificate as it is stored"), h("pre", { class: "full" }, JSON.stringify(c, null, 2))));
  if (state.q) { $("#text").value = state.q; ask(); }
}

function choose(one) {
  $("#text").value = one.text;
  ask();
}

/** Both texts come in lines of JSON, one for every token. */
async function ask() {
  const text = $("#text").value;
  if (!text.trim()) return;
  speaking?.abort();
  const mine = (speaking = new AbortController());
  state.q = text;
  remember();
  const stored = questions.find((one) => one.text === text && one.answer !== null);
  show($("#expected"), stored ? `The table says “${stored.answer.trim()}”.` : "");
  $("#answer").hidden = false;
  for (const side of ["before", "after"]) { show($(`#${side}`), h("span", { class: "hint" }, "…")); $(`#${side}`).setAttribute("aria-busy", "true"); }
  show($("#verdict"));
  try {
    const answer = await fetch(`/api/grafts/${state.graft}/speak`, { method: "POST", body: JSON.stringify({ text }), headers: { "x-rote-page": "1", "content-type": "application/json" }, signal: mine.signal });
    for await (const record of lines(answer)) {
      if (mine !== speaking) return;
      if (record.error) throw new Error(record.error);
      if (record.side) show($(`#${record.side}`), record.text.trimStart());
      if (record.done) over(record, stored);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    show($("#verdict"), problem(error instanceof TypeError ? "The explorer does not answer; was it closed?" : error.message));
  }
  for (const side of ["before", "after"]) $(`#${side}`).removeAttribute("aria-busy");
}

async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    const parts = (rest + (value ?? "")).split("\n");
    rest = done ? "" : parts.pop();
    for (const part of parts) {
      if (!part) continue;
      try { yield JSON.parse(part); } catch { throw new Error(part.replace(/^rote: /, "")); }
    }
    if (done) return;
  }
}

function over({ done, command }, stored) {
  for (const side of ["before", "after"]) show($(`#${side}`), done[side].trimStart() || h("span", { class: "hint" }, "nothing"));
  const right = stored && done.after.trim() === stored.answer.trim();
  const tag = stored ? h("span", { class: `tag ${right ? "done" : "failed"}` }, right ? "a fact, said in full" : `a fact: ${stored.answer.trim()}`)
    : h("span", { class: "tag" }, done.same ? "the graft changes nothing here" : "the graft says something else");
  say(`After: ${done.after}. ${tag.textContent}`);
  show($("#verdict"), h("p", {}, tag), commandLine(command));
}

$("#form").addEventListener("submit", (e) => { e.preventDefault(); ask(); });
$("#text").addEventListener("keydown", (e) => { if (e.key === "Enter" && !e.shiftKey) { e.preventDefault(); ask(); } });
try { await chooser(); } catch (error) { show($("#grafts"), problem(error.message)); }
