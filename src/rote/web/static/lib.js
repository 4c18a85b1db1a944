// What the pages share: elements from text (never from markup), questions to the server, numbers as people read them.

import { coloured, plotLegend } from "./figure.js";

export const $ = (selector, root = document) => root.querySelector(selector);

/** An element; children that are strings become text, so nothing from outside is ever read as markup. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const show = (parent, ...children) => parent.replaceChildren(...children.flat(9).filter((c) => c));

/** Ask the server; a refusal becomes an Error that carries its sentence. */
export async function api(path, { body, method, signal, raw } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method: method || (body === undefined ? "GET" : "POST"),
      body: raw ? body : body === undefined ? undefined : JSON.stringify(body),
      headers: { "x-rote-page": "1", ...(body === undefined ? {} : { "content-type": raw ? "application/octet-stream" : "application/json" }) },
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The explorer does not answer; was it closed?");
  }
  const text = await answer.text();
  let record;
  try { record = JSON.parse(text); } catch { throw new Error(text.replace(/^rote: /, "") || `status ${answer.status}`); }
  if (!answer.ok || record?.error) throw new Error(record.error || `status ${answer.status}`);
  return record;
}

const grouped = new Intl.NumberFormat("en-GB");
export function num(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e12) return grouped.format(value);
  if (Math.abs(value) >= 1e12) return value.toExponential(1);
  const short = Number(value.toPrecision(digits));
  return Math.abs(short) >= 1000 ? grouped.format(short) : String(short);
}
export function bytes(size) {
  return size < 1e6 ? `${(size / 1e3).toFixed(1)} kB` : `${num(Math.round(size / 1e5) / 10)} MB`;
}
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.round(seconds);
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** Say something to screen readers. */
export function say(text) { $("#said").textContent = text; }

/** The command that gives the same answer, with a button that copies it. */
export function commandLine(text) {
  const button = h("button", { class: "quiet copy", type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(code); button.textContent = "Select and copy"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  // Lines are broken between words, not behind the hyphens of an option.
  const code = h("code", {}, text.split(" ").flatMap((word, i) => [i ? " " : "", h("span", {}, word)]));
  return h("div", { class: "command", role: "group", "aria-label": "The same on the command line" }, code, button);
}

/** Keep the address in step with the view, so that it can be shared and reloaded. */
export function setAddress(values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "" && value !== false) query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
}
export const address = () => Object.fromEntries(new URLSearchParams(location.search));

/** Run `work` after the last call; never two at once, and the newest wish wins. */
export function newest(work) {
  let running = false, again = false;
  return async function run() {
    if (running) { again = true; return; }
    running = true;
    try { do { again = false; await work(); } while (again); } finally { running = false; }
  };
}

export function field(label, control, hint) {
  const id = control.id || `f${Math.random().toString(36).slice(2)}`;
  control.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label), control, hint ? h("p", { class: "hint" }, hint) : null);
}

/** A table of a sheet: the first column and those named in `left` on the left, numbers on the right. */
function grid(g) {
  const side = (k) => (k && !g.left.includes(g.columns[k]) ? "right" : null);
  return h("table", {}, g.title ? h("caption", {}, g.title) : null, h("thead", {}, h("tr", {}, g.columns.map((name, k) => h("th", { scope: "col", class: side(k) }, name)))),
    h("tbody", {}, g.rows.map((row) => h("tr", {}, row.map((cell, k) => h("td", { class: side(k) }, cell))))));
}

/** What a certificate says, for people. */
export function sheetView(sheet) {
  return h("div", { class: "sheet" }, h("p", {}, sheet.lead.replace(/^: /, "")),
    sheet.lines.map((line) => h("p", { class: "hint" }, line)), sheet.grids.map(grid), sheet.notes.map((note) => h("p", { class: "hint" }, note)));
}

export function problem(sentence) { return h("p", { class: "problem", role: "alert" }, sentence); }

let held;
/** plotly, loaded after the page is painted. */
export function plotly() {
  held ??= new Promise((resolve, reject) => {
    const script = h("script", { src: `${document.documentElement.dataset.static}/plotly.min.js` });
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly could not be loaded."));
    requestAnimationFrame(() => setTimeout(() => document.head.append(script)));
  });
  return held;
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export const chartRest = { displayModeBar: false, responsive: true };
export const kindWords = {
  lower: "Lower: this much fits", upper: "Upper: more never fits", empirical: "Measured, no theorem", order: "Orders of magnitude",
};

/** The plots of a figure, each in the element of its number: ID-0, ID-1, ...; legends of several series come after them. */
export async function drawFigure(figure, id, height = 380) {
  const Plotly = await plotly();
  for (const [i, plot] of figure.panels.entries()) {
    const box = document.getElementById(`${id}-${i}`);
    if (!box) return;
    const draw = () => {
      const { data, layout } = coloured(plot);
      return Plotly.react(box, data, { ...layout, height, dragmode: false }, chartRest);
    };
    box.style.height = `${height}px`;
    if (box.nextElementSibling?.classList.contains("legend")) box.nextElementSibling.remove();
    if (plot.legend.length > 1) box.after(plotLegend(plot, draw));
    await draw();
  }
}
