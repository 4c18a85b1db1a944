// Plots of rote.plot.interactive in a page: colours of the theme, and a legend of buttons. No markup is read from texts.

// Colours are names of CSS variables in plots; their values depend on the theme.
const coloured = (value, style = getComputedStyle(document.documentElement)) => {
  if (typeof value === "string") {
    return value.startsWith("--") ? style.getPropertyValue(value).trim() || "#888" : value;
  }
  if (Array.isArray(value)) {
    return value.length && typeof value[0] === "number" ? value : value.map((one) => coloured(one, style));
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one, style)]));
  }
  return value;
};

const markShapes = {
  circle: "M8 7a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", square: "M8 3H16V11H8Z", diamond: "M12 2L17 7L12 12L7 7Z",
  "triangle-up": "M12 2L17 11H7Z", "triangle-down": "M12 12L17 3H7Z", cross: "M10 2h4v3h3v4h-3v3h-4v-3h-3v-4h3Z",
  star: "M12 1L13.8 5H18L14.6 8L16 12L12 9.6L8 12L9.4 8L6 5H10.2Z", pentagon: "M12 2L17 6L15 12H9L7 6Z",
};
const lineDashes = { dash: "5 3", longdash: "9 3", dot: "2 3", dashdot: "6 3 2 3", longdashdot: "9 3 2 3" };

const legendMark = (trace) => {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = (attributes) => {
    const part = document.createElementNS(space, "path");
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    svg.append(part);
  };
  svg.setAttribute("width", "24");
  svg.setAttribute("height", "14");
  svg.setAttribute("aria-hidden", "true");
  const hollow = trace.symbol.endsWith("-open"), tint = `var(${trace.colour})`;
  const shape = markShapes[trace.symbol.replace("-open", "")] || markShapes.circle;
  if (!trace.dash) {
    path({ d: shape, fill: hollow ? "none" : tint, stroke: tint, "stroke-width": "2" });
    return svg;
  }
  const dash = lineDashes[trace.dash] || (trace.dash.includes("px") ? trace.dash.replaceAll("px", "").replaceAll(",", " ") : "none");
  path({ d: "M0 7H24", stroke: tint, "stroke-width": "2.5", "stroke-dasharray": dash });
  if (trace.symbol) path({ d: shape, fill: tint });
  return svg;
};

/** The legend of a plot: buttons, so that it works with a keyboard too. They set `visible` in the data and call `redraw`. */
const plotLegend = (plot, redraw) => {
  const box = document.createElement("div");
  box.className = "legend";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "Series, press to show or hide");
  for (const trace of plot.legend) {
    const button = document.createElement("button"), name = document.createElement("span");
    button.type = "button";
    button.setAttribute("aria-pressed", String(trace.shown));
    name.textContent = trace.kind === "published" && !/publish/.test(trace.name) ? `${trace.name} (published)` : trace.name;
    button.append(legendMark(trace), name);
    if (!trace.shown) {
      const far = document.createElement("small");
      far.textContent = "(beyond the picture)";
      button.append(far);
    }
    button.addEventListener("click", () => {
      trace.shown = !trace.shown;
      button.setAttribute("aria-pressed", String(trace.shown));
      for (const index of trace.members) plot.data[index].visible = trace.shown;
      redraw();
    });
    box.append(button);
  }
  return box;
};
