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

/** The range of the upper axis with a little air, and a trace of names at the right ends of lines, moved apart where
 * they would overlap: `room` is the height of the axis in pixels. Lines of several names show the first. */
const endNames = (plot, room) => {
  const log = plot.layout.yaxis.type === "log", f = log ? Math.log10 : (v) => v, back = log ? (v) => 10 ** v : (v) => v;
  const lines = plot.data.filter((line) => line.mode === "lines" && line.y.some((v) => v > 0));
  const shown = lines.flatMap((line) => line.y).filter((v) => v > 0).map(f);
  if (!shown.length) return { range: [0, 1], trace: null };
  const least = log ? Math.min(...shown) : 0, most = Math.max(...shown), air = 0.04 * Math.max(1e-6, most - least);
  const low = least - (log ? air : 0), high = most + air, end = Math.max(...lines.map((line) => line.x.at(-1)));
  const spots = lines.filter((line) => line.x.at(-1) === end && line.y.at(-1) > 0)
    .map((line) => ({ line, at: (f(line.y.at(-1)) - low) / (high - low) })).sort((a, b) => a.at - b.at);
  const gap = 14.5 / room;
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
  const names = blocks.flatMap(({ members, centre }) => members.map(({ line }, i) => {
    const [first, ...more] = line.name.split(", ");
    return { text: ` ${first}${more.length ? ` +${more.length}` : ""}`, colour: line.line.color, y: back(low + (high - low) * (centre + gap * (i - (members.length - 1) / 2))) };
  }));
  // A trace of texts: annotations would each be measured, which takes longer than all lines together.
  const trace = {
    x: names.map(() => end), y: names.map((n) => n.y), text: names.map((n) => n.text), name: "names of lines", type: "scatter", mode: "text",
    textposition: "middle right", textfont: { size: 11, color: names.map((n) => n.colour) }, hoverinfo: "skip", cliponaxis: false,
  };
  return { range: [low, high], trace };
};
