"use strict";
// Runs before the first paint, so that a dark page never flashes light.
(() => {
  const root = document.documentElement;
  const wish = () => { try { return localStorage.getItem("rote-theme"); } catch { return null; } };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const kind = wish() || (dark.matches ? "dark" : "light");
    root.dataset.theme = kind;
    dispatchEvent(new CustomEvent("themechange"));
  };
  apply();
  dark.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      try { localStorage.setItem("rote-theme", root.dataset.theme === "dark" ? "light" : "dark"); } catch { /* private mode */ }
      apply();
    });
  });
})();
