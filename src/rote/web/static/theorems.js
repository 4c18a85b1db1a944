import { $, h, show, api, num, address, setAddress, commandLine, problem, kindWords } from "./lib.js";

const state = { find: "", kind: "", builds: false, theorem: "", ...address() };
state.builds = state.builds === "1";
let all = null;

function card(t, open) {
  const marks = { met: "✓", "not met": "✗", unknown: "?" };
  const body = h("div", { class: "theorem-body" },
    h("p", { class: "statement" }, t.statement),
    h("dl", { class: "pairs" },
      h("dt", {}, "Source"), h("dd", {}, t.arxiv ? h("a", { href: `https://arxiv.org/abs/${t.arxiv}`, rel: "noreferrer", target: "_blank" }, t.source) : t.source, h("div", { class: "hint" }, `“${t.paper}”`)),
      h("dt", {}, "Promises"), h("dd", {}, t.promises),
      h("dt", {}, "Speaks of"), h("dd", {}, t.takes),
      h("dt", {}, "Builds"), h("dd", {}, t.constructive ? h("a", { href: `/build?with=${t.theorem}` }, `weights, with rote build --with ${t.theorem}`) : "nothing: a bound"),
      h("dt", {}, "Conditions"), h("dd", {}, h("ul", { class: "conditions" }, t.conditions.map((c) => h("li", { class: c.status.replace(" ", "-") }, h("span", { class: "mark", title: c.status }, marks[c.status]), h("span", {}, h("b", {}, c.name), ` ${c.detail}`)))), h("p", { class: "hint" }, `marks are for ${all.shown_at}`)),
      h("dt", {}, "There"), h("dd", {}, h("code", {}, t.formula), t.facts === null ? null : ` – ${num(t.facts)} facts`)),
    h("details", {}, h("summary", {}, "In full"), h("pre", { class: "full" }, t.text)),
    commandLine(t.command));
  const made = h("details", { class: "panel theorem", id: t.theorem, open: open || null, ontoggle: () => {
    if (made.open) { state.theorem = t.theorem; remember(); }
  } }, h("summary", {}, h("span", { class: `swatch ${t.kind}`, title: t.kind }), h("span", { class: "key" }, t.theorem), h("span", { class: "title" }, t.title),
    t.constructive ? h("span", { class: "tag" }, "builds") : null), body);
  return made;
}
const remember = () => setAddress({ find: state.find, kind: state.kind, builds: state.builds ? 1 : null, theorem: state.theorem });

function draw() {
  const words = state.find.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.theorems.filter((t) => (!state.kind || t.kind === state.kind) && (!state.builds || t.constructive)
    && words.every((w) => `${t.theorem} ${t.title} ${t.statement} ${t.source} ${t.paper}`.toLowerCase().includes(w)));
  show($("#list"), Object.keys(kindWords).map((kind) => {
    const of = found.filter((t) => t.kind === kind);
    return of.length ? h("section", { "aria-label": kindWords[kind] }, h("h2", {}, kindWords[kind]), of.map((t) => card(t, t.theorem === state.theorem))) : null;
  }));
  $("#count").textContent = `${found.length} of ${all.theorems.length}`;
}

try {
  all = await api("/api/theorems");
  $("#find").value = state.find;
  $("#find").addEventListener("input", (e) => { state.find = e.target.value; remember(); draw(); });
  $("#builds").checked = state.builds;
  $("#builds").addEventListener("change", (e) => { state.builds = e.target.checked; remember(); draw(); });
  show($("#kinds"), ["", "lower", "upper", "empirical", "order"].map((kind) => h("button", { type: "button", "aria-pressed": String(state.kind === kind), onclick: (e) => {
    state.kind = kind;
    for (const b of $("#kinds").children) b.setAttribute("aria-pressed", String(b === e.currentTarget));
    remember();
    draw();
  } }, kind || "all")));
  draw();
  show($("#theorems-command"), commandLine(all.command));
  if (state.theorem) document.getElementById(state.theorem)?.scrollIntoView({ block: "center" });
} catch (error) {
  show($("#list"), problem(error.message));
}
