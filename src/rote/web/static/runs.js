import { $, h, show, api, num, duration, bytes, address, setAddress, commandLine, problem, field, say, drawFigure } from "./lib.js";

const given = address();
const state = { db: given.db || null, entry: given.entry || null, x: given.x || null, y: given.y || null, law: given.law || "auto", where: {} };
for (const part of (given.where || "").split("\t").filter(Boolean)) { const [name, ...rest] = part.split("="); state.where[name] = rest.join("="); }
let list = null, journal = null, lastFit = null, lastEntry = null, timer = 0, chosen = new Set();
const wheres = () => Object.entries(state.where).map(([name, value]) => `${name}=${value}`);
const remember = () => setAddress({ db: state.db, entry: state.entry, x: state.db ? state.x : null, y: state.db ? state.y : null, law: state.law === "auto" ? null : state.law, where: wheres().join("\t") });
const verdictClass = { holds: "done", "does not hold": "failed", undecided: "queued", "not judged": "queued" };

function lists() {
  const pick = (id, label) => h("input", { type: "checkbox", "aria-label": `Put ${label} into the report`, checked: chosen.has(id), onchange: (e) => { if (e.target.checked) chosen.add(id); else chosen.delete(id); reports(); } });
  show($("#results"), list.results.length ? h("ul", { class: "choices" }, list.results.map((r) => h("li", { class: r.id === state.db ? "chosen" : "" }, list.reports ? pick(r.id, r.name) : null, h("button", { class: "link", type: "button", "aria-current": r.id === state.db ? "true" : null, onclick: () => openDb(r.id, true) }, r.name), h("span", { class: "hint" }, bytes(r.size)))))
    : h("p", { class: "hint" }, "No results database in this folder. ", h("code", {}, "rote sweep grid.toml --db results.db"), " writes one; start ", h("code", {}, "rote ui --dir FOLDER"), " where it lies."));
  show($("#entries"), list.entries.length ? h("ul", { class: "choices" }, list.entries.map((e) => h("li", { class: e.id === state.entry ? "chosen" : "" }, list.reports ? pick(e.id, e.entry || e.name) : null, h("button", { class: "link", type: "button", onclick: () => openEntry(e.id) }, e.title || e.entry || e.name), e.verdict ? h("span", { class: `tag ${verdictClass[e.verdict] || ""}` }, e.verdict) : null, h("span", { class: "hint" }, e.entry))))
    : h("p", { class: "hint" }, "None in this folder."));
  reports();
}

function reports() {
  if (!list.reports) { show($("#report"), h("p", { class: "hint" }, "This rote writes no reports yet.")); return; }
  const go = h("button", { type: "button", disabled: chosen.size === 0, onclick: async () => {
    go.disabled = true;
    try {
      const made = await api("/api/report", { body: { ids: [...chosen] } });
      show($("#report"), h("p", {}, h("a", { href: made.address, target: "_blank", rel: "noopener" }, "Open the report"), h("span", { class: "hint" }, ` ${num(made.sections)} section${made.sections === 1 ? "" : "s"}, ${bytes(made.bytes)}`)), h("button", { type: "button", class: "quiet", onclick: reports }, "Make another"), commandLine(made.command));
      say("The report is made.");
    } catch (error) { show($("#report"), problem(error.message), go); go.disabled = false; }
  } }, `Make the report${chosen.size ? ` of ${chosen.size}` : ""}`);
  show($("#report"), h("p", { class: "hint" }, "One self-contained page of what is ticked above."), go);
}

async function openDb(id, fresh) {
  clearTimeout(timer);
  state.db = id;
  state.entry = lastEntry = null;
  if (fresh) { state.x = state.y = null; state.where = {}; state.law = "auto"; }
  journal = lastFit = null;
  lists();
  show($("#shown"), h("section", { class: "panel", id: "progress", "aria-live": "off" }, h("p", { class: "hint" }, "Reading …")), h("section", { class: "panel", id: "fit", "aria-labelledby": "fit-title" }));
  await look();
}

async function look() {
  clearTimeout(timer);
  if (!state.db) return;
  const of = state.db;
  let found;
  try { found = await api(`/api/runs/${of}`); } catch (error) {
    if ($("#progress")) show($("#progress"), problem(error.message));
    timer = setTimeout(look, 5000);
    return;
  }
  if (of !== state.db) return;
  const grown = !journal || journal.rows !== found.rows;
  journal = found;
  progress();
  if (grown) { controls(); fit(); }
  timer = setTimeout(look, found.open || found.sweeps.some((s) => s.since_last < 120) ? 1500 : 8000);
}

function progress() {
  const details = new Set([...document.querySelectorAll("#progress details[open]")].map((d) => d.dataset.name));
  show($("#progress"), h("h2", {}, journal.name),
    journal.sweeps.map((s) => {
      const done = s.counts.done || 0, bad = Object.entries(s.counts).filter(([k]) => k !== "done").reduce((a, [, n]) => a + n, 0);
      // Rows inside the quick grid may belong to either; both are shown then.
      const grids = s.grids.filter((g) => !g.quick || g.whole);
      const running = journal.open && s.since_last < 600 && !grids.every((g) => g.known === g.total);
      const head = h("div", { class: "row between wrap" }, h("b", { class: "sweep-name" }, s.name), h("span", { class: `tag ${running ? "done" : "queued"}` }, running ? "running" : grids.some((g) => g.known === g.total) ? "complete" : "at rest"));
      const bars = grids.map((g) => {
        const left = g.total - g.known, togo = s.pace && running ? left / s.pace : null;
        return h("div", { class: "grid-line" }, h("div", { class: "progress", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": String(g.total), "aria-valuenow": String(g.known), "aria-label": `${s.name}${g.quick ? ", quick grid" : ""}` }, h("i", { style: `width:${(100 * g.known) / g.total}%` })),
          h("p", { class: "hint" }, `${num(g.known)} of ${num(g.total)} cells${g.quick ? " of the quick grid" : ""}${left ? `, ${num(left)} left` : ""}${togo ? `, about ${duration(togo)} to go` : ""}`));
      });
      const columns = s.newest.length ? Object.keys(s.newest[0]) : [];
      const same = columns.filter((c) => s.newest.length > 1 && c !== "finished" && new Set(s.newest.map((r) => String(r[c]))).size === 1);
      const shown = columns.filter((c) => !same.includes(c));
      return h("div", { class: "sweep" }, head, bars,
        h("p", { class: "hint" }, `${num(done)} done${bad ? `, ${num(bad)} failed or diverged` : ""}; last result ${duration(s.since_last)} ago; ${duration(s.spent)} of work${grids.length ? "" : "; its grid is not in this folder, so what is left is not known"}.`),
        h("details", { "data-name": s.name, open: details.has(s.name) || null }, h("summary", {}, "Newest results"), h("div", { class: "scroll" }, h("table", { class: "small" }, h("thead", {}, h("tr", {}, shown.map((c) => h("th", { scope: "col" }, c)))), h("tbody", {}, s.newest.map((r) => h("tr", {}, shown.map((c) => h("td", {}, c === "finished" ? String(r[c]).slice(11, 19) : num(r[c])))))))), same.length ? h("p", { class: "hint" }, `everywhere: ${same.map((c) => `${c} ${num(s.newest[0][c])}`).join(", ")}`) : null));
    }),
    commandLine(journal.command));
}

function controls() {
  const numeric = ["n_heads", "d_model", "d_head", "context", "vocab", "n_layers", "d_mlp", "n_facts"];
  const xs = Object.keys(journal.varying).filter((c) => numeric.includes(c) && journal.varying[c].every((v) => typeof v === "number"));
  if (!xs.includes(state.x)) state.x = xs[0] || null;
  if (!journal.y.includes(state.y)) state.y = journal.y[0] || null;
  const box = $("#fit");
  if (!state.x || !state.y) { show(box, h("h2", { id: "fit-title" }, "Fit"), h("p", { class: "hint" }, "A fit needs results at several values of a column.")); return; }
  const free = Object.keys(journal.varying).filter((c) => c !== state.x && c !== state.y && !(c === "n_facts" && state.y === "capacity"));
  for (const name of Object.keys(state.where)) if (!free.includes(name)) delete state.where[name];
  for (const name of free) state.where[name] ??= String(journal.varying[name][0]);
  const select = (label, name, values, change) => field(label, h("select", { id: `fit-${name}`, onchange: (e) => { change(e.target.value); remember(); controls(); fit(); } }, values.map((v) => h("option", { value: String(v), selected: String(v) === String(name in state ? state[name] : state.where[name]) }, String(v)))));
  show(box, h("h2", { id: "fit-title" }, "Fit"), h("div", { class: "grid3" }, select("Grows along", "x", xs, (v) => { state.x = v; state.where = {}; }), select("What grows", "y", journal.y, (v) => { state.y = v; }), select("Law", "law", ["auto", "linear", "power", "quadratic"], (v) => { state.law = v; }),
    free.map((name) => select(name, name, journal.varying[name], (v) => { state.where[name] = v; }))),
    h("div", { id: "fit-0", class: "chart", role: "img", "aria-label": "Points, law and bounds" }), h("div", { id: "fit-words" }));
}

let asked = 0;
const drawFit = () => lastFit && drawFigure(lastFit.figure, "fit");
const drawEntry = () => lastEntry && Promise.all(lastEntry.figures.map((figure, i) => drawFigure(figure, `figure-${i}`)));

async function fit() {
  if (!state.x || !state.y || !$("#fit-0")) return;
  remember();
  const mine = (asked += 1);
  const q = new URLSearchParams({ x: state.x, y: state.y, law: state.law });
  for (const one of wheres()) q.append("where", one);
  try { lastFit = await api(`/api/runs/${state.db}/fit?${q}`); } catch (error) {
    if (mine === asked) { lastFit = null; show($("#fit-words"), h("p", { class: "hint" }, error.message)); $("#fit-0").hidden = true; }
    return;
  }
  if (mine !== asked || !$("#fit-0")) return;
  $("#fit-0").hidden = false;
  fitWords();
  await drawFit();
}

function fitWords() {
  const f = lastFit;
  show($("#fit-words"), h("p", {}, "Chosen: ", h("b", {}, f.law), `, ${f.why}.`, f.verdict ? ` Is it linear? ${f.verdict[0].toUpperCase()}${f.verdict.slice(1)}.` : ""),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "law"), h("th", { scope: "col" }, `parameters (${Math.round(100 * f.level)} % intervals)`), h("th", { scope: "col", class: "right" }, "CV error"), h("th", { scope: "col", class: "right" }, "AIC"))),
      h("tbody", {}, f.laws.map((l) => h("tr", { class: l.law === f.law ? "strong-row" : "" }, h("td", {}, l.law, h("div", { class: "formula" }, l.formula)), h("td", {}, Object.entries(l.params).map(([name, p]) => h("div", {}, `${name} = ${num(p.value, 4)} (${num(p.interval[0], 4)} to ${num(p.interval[1], 4)})`))), h("td", { class: "right" }, num(l.cross_validated_error)), h("td", { class: "right" }, num(l.aic))))))),
    f.predictions.length ? h("details", {}, h("summary", {}, "Slopes that theorems predict"), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["theorem", "kind", "predicted slope", "measured/predicted"].map((t, i) => h("th", { scope: "col", class: i > 1 ? "right" : "" }, t)))), h("tbody", {}, f.predictions.map((p) => h("tr", {}, h("td", {}, h("a", { href: `/theorems?theorem=${p.theorem}` }, p.theorem)), h("td", {}, p.kind), h("td", { class: "right" }, num(p.slope)), h("td", { class: "right" }, num(p.ratio)))))))) : null,
    commandLine(f.command));
}

async function openEntry(id) {
  clearTimeout(timer);
  state.entry = id;
  state.db = journal = lastFit = null;
  remember();
  lists();
  show($("#shown"), h("section", { class: "panel" }, h("p", { class: "hint" }, "Reading …")));
  let e;
  try { e = await api(`/api/entries/${id}`); } catch (error) { show($("#shown"), h("section", { class: "panel" }, problem(error.message))); return; }
  lastEntry = e;
  show($("#shown"), h("section", { class: "panel", "aria-labelledby": "entry-title" }, h("h2", { id: "entry-title" }, e.title || e.entry), h("p", { class: "hint" }, [e.source, e.entry, e.mode].filter(Boolean).join(" · ")),
    e.verdict ? h("p", { class: "verdict" }, h("span", { class: `tag ${verdictClass[e.verdict] || ""}` }, e.verdict), ` ${e.sentence}`) : null,
    e.figures.map((f, i) => h("figure", {}, f.panels.map((p, j) => h("div", {}, p.title && f.panels.length > 1 ? h("h3", {}, p.title) : null, h("div", { class: "chart", id: `figure-${i}-${j}`, role: "img", "aria-label": f.alt || f.caption || f.title }))), h("figcaption", { class: "hint" }, f.caption))),
    h("dl", { class: "pairs" }, [["Question", e.question], ["Claim", e.claim], ["Answer", e.answer]].filter(([, t]) => t).map(([name, t]) => [h("dt", {}, name), h("dd", {}, t)]), e.deviations.length ? [h("dt", {}, "Differs"), h("dd", {}, h("ul", { class: "offenders" }, e.deviations.map((d) => h("li", {}, d))))] : null),
    e.command ? commandLine(e.command) : null));
  await drawEntry();
}

addEventListener("themechange", () => { drawFit(); drawEntry(); });
api("/api/warm", { method: "POST" }).catch(() => {});
try {
  list = await api("/api/runs");
  lists();
  if (state.entry) await openEntry(state.entry);
  else if (state.db || list.results.length) await openDb(state.db || list.results[0].id, false);
  else show($("#shown"), h("section", { class: "panel" }, h("p", {}, "Choose something on the left.")));
  setInterval(async () => { try { const next = await api("/api/runs"); if (JSON.stringify(next) !== JSON.stringify(list)) { list = next; lists(); } } catch { /* the page says so elsewhere */ } }, 6000);
} catch (error) { show($("#results"), problem(error.message)); }
