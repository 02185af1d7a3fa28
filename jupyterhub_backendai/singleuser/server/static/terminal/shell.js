// One shell in a tab: its terminal, and the socket to it.
"use strict";
const Shell = (() => {
  const PIECE = 32_768; // characters of input in one message
  const REPORT = 20_000; // characters drawn before the server is told
  const KEYS = { escape: "\x1b", tab: "\t", up: "A", down: "B", right: "C", left: "D" };
  let count = 0;

  return class {
    /** `page` has root, kind, copy(text, name), control(), leave(), lost(shell), over(shell), opened(shell). */
    constructor(name, page) {
      this.name = name;
      this.page = page;
      this.live = false; // what the terminal answers to old output is nobody's input
      this.connected = false;
      this.unreported = 0;
      const number = ++count;
      this.tab = make("button", { type: "button", id: `tab-${number}`, role: "tab", "aria-controls": `shell-${number}` });
      this.tab.textContent = this.tab.title = name;
      this.panel = make("section", { id: `shell-${number}`, class: "shell", role: "tabpanel", "aria-labelledby": `tab-${number}` });
      this.words = make("p", { class: "word", role: "alert" });
      this.screen = make("div", { class: "screen" });
      this.words.hidden = this.panel.hidden = true;
      this.panel.append(this.words, this.screen);
    }

    show(focus) {
      this.panel.hidden = false;
      if (!this.term) this.start();
      this.fit();
      if (focus) this.focus();
    }

    focus() {
      (this.words.querySelector("button, a") || this.term)?.focus();
    }

    /** A word above the terminal, with something to press perhaps; nothing takes it away. */
    word(text = "", ...more) {
      this.words.replaceChildren(text, ...more);
      this.words.hidden = !text;
      this.fit();
    }

    start() {
      const term = (this.term = new Terminal(Looks.options(this.page.kind)));
      this.fitter = new FitAddon.FitAddon();
      term.loadAddon(this.fitter);
      term.loadAddon(new WebLinksAddon.WebLinksAddon((event, uri) => window.open(uri, "_blank", "noopener,noreferrer")));
      term.loadAddon(new Unicode11Addon.Unicode11Addon());
      term.unicode.activeVersion = "11";
      term.open(this.screen);
      this.fitter.fit();
      term.textarea.setAttribute("aria-label", `${this.name}, terminal input`);
      term.onData((data) => this.live && this.type(data));
      term.onResize(({ rows, cols }) => this.send(["set_size", rows, cols]));
      term.attachCustomKeyEventHandler((event) => this.key(event));
      term.parser.registerOscHandler(52, (data) => {
        const text = this.live && Clipboard52.textOf(data);
        if (text) this.page.copy(text, this.name);
        return true;
      });
      Looks.onChange(() => (term.options.theme = Looks.theme()));
      new ResizeObserver(() => this.fit()).observe(this.screen);
      this.watchMouse();
      this.watchTouch();
      this.connect();
    }

    fit() {
      if (this.fitter && this.screen.offsetParent) this.fitter.fit();
    }

    // ---- what the user does

    type(data) {
      if (/^[@-_a-z]$/.test(data) && this.page.control()) {
        data = String.fromCharCode(data.toUpperCase().charCodeAt(0) & 31);
      }
      for (let at = 0; at < data.length; at += PIECE) this.send(["stdin", data.slice(at, at + PIECE)]);
    }

    /** A key of the row of keys. */
    press(key) {
      const arrow = this.term.modes.applicationCursorKeysMode ? "\x1bO" : "\x1b[";
      this.term.input(KEYS[key].length === 1 && /[A-D]/.test(KEYS[key]) ? arrow + KEYS[key] : KEYS[key]);
      this.term.focus();
    }

    /** False keeps a key from the shell. */
    key(event) {
      if (!event.ctrlKey || !event.shiftKey) return true;
      if (event.key === "ArrowUp") {
        if (event.type === "keydown") this.page.leave();
        event.preventDefault();
        return false;
      }
      if (event.code === "KeyC" && this.term.hasSelection()) {
        if (event.type === "keydown") this.page.copy(this.term.getSelection(), this.name);
        event.preventDefault();
        return false;
      }
      return true;
    }

    /** What was selected is copied when the button is let go, wherever that is. */
    watchMouse() {
      this.screen.addEventListener("mousedown", (down) => {
        if (down.button !== 0) return;
        document.addEventListener("mouseup", () => setTimeout(() => {
          const text = this.term.getSelection();
          if (text) this.page.copy(text, this.name);
        }), { once: true });
      });
    }

    /** A finger turns the wheel where a program has the mouse; xterm.js scrolls by itself elsewhere. */
    watchTouch() {
      let last = null;
      this.screen.addEventListener("touchstart", (event) => (last = event.touches[0]), { passive: true });
      this.screen.addEventListener("touchmove", (event) => {
        const touch = event.touches[0];
        if (last && this.term.modes.mouseTrackingMode !== "none") {
          const { clientX, clientY } = touch;
          const wheel = { deltaY: last.clientY - clientY, clientX, clientY, bubbles: true, cancelable: true };
          this.term.element.dispatchEvent(new WheelEvent("wheel", wheel));
          event.preventDefault();
        }
        last = touch;
      }, { passive: false });
    }

    // ---- the socket

    connect() {
      const url = new URL(`${this.page.root}shells/${encodeURIComponent(this.name)}/socket`, location.href);
      url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
      url.search = new URLSearchParams({ rows: this.term.rows, columns: this.term.cols });
      const socket = (this.socket = new WebSocket(url));
      this.live = this.ended = false;
      socket.onmessage = (event) => this.hear(JSON.parse(event.data));
      socket.onclose = () => {
        if (this.socket !== socket) return;
        this.live = this.connected = false;
        this.ended ? this.page.over(this) : this.page.lost(this);
      };
    }

    send(message) {
      if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
    }

    hear([what, text]) {
      const { term } = this;
      if (what === "stdout") {
        term.write(text, () => this.drawn(text.length));
      } else if (what === "setup" || what === "again") {
        this.live = false;
        this.unreported = 0;
        term.write("", () => term.reset());
      } else if (what === "ready") {
        term.write("", () => this.opened());
      } else if (what === "disconnect") {
        this.ended = true;
      }
    }

    opened() {
      this.live = this.connected = true;
      this.send(["set_size", this.term.rows, this.term.cols]);
      this.page.opened(this);
    }

    drawn(characters) {
      this.unreported += characters;
      if (this.unreported < REPORT) return;
      this.send(["drawn", this.unreported]);
      this.unreported = 0;
    }

    remove() {
      const socket = this.socket;
      this.socket = null;
      socket?.close();
      this.term?.dispose();
      this.tab.remove();
      this.panel.remove();
    }
  };
})();

function make(tag, attributes = {}, text = "") {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}
