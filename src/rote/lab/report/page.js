// The page works without this: drawn figures, tables and links are there. Here they become interactive.
"use strict";
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const specs = JSON.parse(document.getElementById("figures").textContent);

  const config = {
    responsive: true,
    displaylogo: false,
    // Shown while the pointer is over the figure; fingers have no pointer.
    displayModeBar: touch ? false : "hover",
    // Spelled out, since one of the usual buttons sends the figure to a service.
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    scrollZoom: false,
  };

  const specOf = (plot) => specs[plot.dataset.figure][Number(plot.dataset.panel)];

  const draw = (plot) => {
    const { data, layout } = coloured(specOf(plot));
    // A finger that moves over a figure scrolls the page.
    layout.dragmode = touch ? false : "zoom";
    layout.autosize = true;
    return window.Plotly.react(plot, data, layout, config);
  };

  const drawn = new Set();
  const redraw = () => drawn.forEach((plot) => draw(plot));

  const keys = (plot) => plot.after(plotLegend(specOf(plot), () => { if (drawn.has(plot)) draw(plot); }));

  const themes = () => {
    const button = document.getElementById("theme");
    const names = ["automatic", "light", "dark"];
    let at = 0;
    button.hidden = false;
    button.addEventListener("click", () => {
      at = (at + 1) % names.length;
      button.textContent = `Theme: ${names[at]}`;
      if (at) root.dataset.theme = names[at]; else delete root.dataset.theme;
      redraw();
    });
    dark.addEventListener("change", redraw);
  };

  const links = () => {
    document.querySelectorAll("a[data-of]").forEach((link) => {
      const picture = document.getElementById(link.dataset.of);
      if (picture) link.href = picture.src;
    });
    document.querySelectorAll("pre.command").forEach((block) => {
      if (!navigator.clipboard) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(block.textContent.trim());
          button.textContent = "Copied";
        } catch {
          button.textContent = "Select the text and copy it";
        }
      });
      block.after(button);
    });
  };

  // plotly.js is packed; browsers since 2023 unpack it. Others keep the drawn figures.
  const unpack = async () => {
    const packed = document.getElementById("library");
    if (!packed.textContent || typeof DecompressionStream === "undefined") return false;
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    packed.remove();
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    return Boolean(window.Plotly);
  };

  const start = async () => {
    themes();
    links();
    const plots = [...document.querySelectorAll(".plot")];
    if (!plots.length || !(await unpack())) {
      root.dataset.ready = "static";
      return;
    }
    document.querySelectorAll("figure.chart").forEach((figure) => {
      figure.classList.add("live");
      figure.querySelector(".panels").hidden = false;
    });
    plots.forEach(keys);
    // Figures are drawn when they come near the screen, so that long pages open at once.
    const seen = new IntersectionObserver((entries) => {
      entries.filter((entry) => entry.isIntersecting && !drawn.has(entry.target)).forEach((entry) => {
        drawn.add(entry.target);
        draw(entry.target);
      });
    }, { rootMargin: "800px" });
    plots.forEach((plot) => seen.observe(plot));
    root.dataset.ready = "live";
  };

  start();
})();
