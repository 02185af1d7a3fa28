// Colours of the terminal, light and dark, and what all terminals have.
"use strict";
const Looks = (() => {
  const LIGHT = {
    background: "#ffffff", foreground: "#1f2328", cursor: "#1f2328", cursorAccent: "#ffffff",
    selectionBackground: "#9cc3f5", selectionInactiveBackground: "#d0d7de",
    black: "#1f2328", red: "#b3261e", green: "#116329", yellow: "#7d4e00",
    blue: "#0b57d0", magenta: "#8250df", cyan: "#0f6b78", white: "#6e7781",
    brightBlack: "#57606a", brightRed: "#cf222e", brightGreen: "#1a7f37", brightYellow: "#9a6700",
    brightBlue: "#1a73e8", brightMagenta: "#a475f9", brightCyan: "#1b7c83", brightWhite: "#8c959f",
  };
  const DARK = {
    background: "#14171c", foreground: "#e3e6ea", cursor: "#e3e6ea", cursorAccent: "#14171c",
    selectionBackground: "#3d5a80", selectionInactiveBackground: "#3b424c",
    black: "#3b424c", red: "#ff7b72", green: "#5fcf80", yellow: "#e3b341",
    blue: "#79b8ff", magenta: "#d2a8ff", cyan: "#56d4dd", white: "#c9d1d9",
    brightBlack: "#8b949e", brightRed: "#ffa198", brightGreen: "#8ae6a2", brightYellow: "#f2cc60",
    brightBlue: "#a5d0ff", brightMagenta: "#e2c5ff", brightCyan: "#8ceaf0", brightWhite: "#ffffff",
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (dark.matches ? DARK : LIGHT);

  /** Whether a screen reader is told what is written; a browser that keeps nothing forgets it. */
  function reader(to) {
    try {
      if (to !== undefined) localStorage.setItem("backendai-terminal-reader", to ? "1" : "");
      return localStorage.getItem("backendai-terminal-reader") === "1";
    } catch {
      return false;
    }
  }

  const options = (kind) => ({
    allowProposedApi: true, // the widths of Unicode 11
    cursorBlink: true,
    fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    fontSize: 14,
    macOptionClickForcesSelection: true,
    minimumContrastRatio: 4.5,
    scrollback: kind === "tmux" ? 0 : 10000, // tmux keeps its own
    screenReaderMode: reader(),
    theme: theme(),
  });

  return { options, reader, theme, onChange: (call) => dark.addEventListener("change", call) };
})();
