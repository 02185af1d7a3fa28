// The page: tabs, what is said, and what happens when the connection is lost.
"use strict";
(() => {
  const { root, xsrf, session, kind, home } = document.body.dataset;
  const $ = (id) => document.getElementById(id);
  const shells = []; // in the order of their tabs
  let current = null;
  let started = false; // there has been a shell
  let starting = false; // another one
  let retrying = false;
  let wait = 500; // milliseconds until the next try
  let tries = 0; // since a socket last opened

  // ---- the server

  /** {status, body}; status 0 where nobody answers, 403 where somebody wants a sign-in, or another
      has been since: then the page is to be loaded again too. */
  async function call(method, path) {
    try {
      const headers = { Accept: "application/json", "X-XSRFToken": xsrf };
      const response = await fetch(root + path, { method, headers, redirect: "manual", cache: "no-store" });
      const status = response.type === "opaqueredirect" || response.status === 401 ? 403 : response.status;
      const body = await response.json().catch(() => ({}));
      return { status, body };
    } catch {
      return { status: 0, body: {} };
    }
  }

  const reason = ({ status, body }) =>
    body.errors?.[0]?.message || (status ? `The server answers with ${status}.` : "The server does not answer.");

  /** Asks which shells there are, and says so where it is no use to go on asking. */
  async function look() {
    const answer = await call("GET", "shells");
    if (answer.status === 200 && answer.body.shells) {
      keep(answer.body.shells);
      return "there";
    }
    if (answer.status === 403) return stop("You are signed out.", () => button("Sign in again", () => location.reload()));
    if (answer.status === 404 || answer.status === 424) {
      return stop("The session has ended.", () => (home ? make("a", { href: home }, "Go to your sessions") : ""));
    }
    return "away";
  }

  function stop(text, more) {
    if (!shells.length) instead(text, more());
    for (const shell of shells) if (!shell.connected) shell.word(text, more());
    return "stopped";
  }

  // ---- what is said

  let quiet;
  function say(text, seconds = 4) {
    const note = document.querySelector("#note span");
    clearTimeout(quiet);
    $("copy").hidden = true;
    note.textContent = text;
    quiet = setTimeout(() => ((note.textContent = ""), ($("copy").hidden = true)), seconds * 1000);
  }

  async function copy(text, name) {
    if (await Clipboard52.copy(text)) return say("Copied");
    say(`${name} has text for the clipboard.`, 20);
    $("copy").hidden = false;
    $("copy").onclick = async () => {
      say((await Clipboard52.copy(text)) ? "Copied" : "The browser does not let this page copy.");
      current?.focus();
    };
  }

  /** A word where a shell would be. */
  function instead(text, ...more) {
    $("shells").querySelector(":scope > .word")?.remove();
    if (!text) return;
    const word = make("p", { class: "word", role: "alert" }, text);
    word.append(...more);
    $("shells").prepend(word);
    word.querySelector("button, a")?.focus();
  }

  function button(text, press) {
    const made = make("button", { type: "button" }, text);
    made.addEventListener("click", press);
    return made;
  }

  // ---- tabs

  const page = { root, kind, copy, control, leave: () => current?.tab.focus(), lost, over, opened };

  /** Makes the tabs be those of the shells there are. */
  function keep(names) {
    for (const shell of shells.filter((each) => !names.includes(each.name))) drop(shell);
    for (const name of names) if (!shells.some((each) => each.name === name)) add(name);
    if (shells.length) instead();
    if (!current && shells.length) {
      const wanted = location.hash.slice(1);
      choose(shells.find((each) => encodeURIComponent(each.name) === wanted) || shells[0]);
    }
    $("close").disabled = !shells.length;
  }

  function add(name) {
    const shell = new Shell(name, page);
    shell.tab.addEventListener("click", () => choose(shell));
    shell.tab.addEventListener("auxclick", (event) => event.button === 1 && close(shell));
    shell.tab.addEventListener("keydown", (event) => keyOnTab(event, shell));
    shell.tab.tabIndex = -1;
    shell.tab.setAttribute("aria-selected", "false");
    shells.push(shell);
    $("tabs").append(shell.tab);
    $("shells").append(shell.panel);
    return shell;
  }

  function choose(shell, focus = true) {
    for (const each of shells) {
      const chosen = each === shell;
      each.tab.setAttribute("aria-selected", String(chosen));
      each.tab.tabIndex = chosen ? 0 : -1;
      if (!chosen) each.panel.hidden = true;
    }
    current = shell;
    shell.tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    shell.show(focus);
    history.replaceState(null, "", `#${encodeURIComponent(shell.name)}`);
    document.title = [shell.name, session, "Terminal"].filter(Boolean).join(" · ");
    $("close").setAttribute("aria-label", `Close ${shell.name}`);
    $("close").title = `Close ${shell.name}`;
  }

  function keyOnTab(event, shell) {
    const at = shells.indexOf(shell);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: shells.length - 1 }[event.key];
    if (to !== undefined) {
      const next = shells[(to + shells.length) % shells.length];
      choose(next, false);
      next.tab.focus();
    } else if (event.key === "Delete") {
      close(shell);
    } else if (event.key === "Enter" || event.key === " ") {
      choose(shell);
    } else {
      return;
    }
    event.preventDefault();
  }

  function drop(shell) {
    const at = shells.indexOf(shell);
    if (at < 0) return;
    const had = shell.panel.contains(document.activeElement) || shell.tab === document.activeElement;
    shells.splice(at, 1);
    shell.remove();
    if (shell !== current) return;
    current = null;
    if (shells.length) choose(shells[Math.max(0, at - 1)], had || document.activeElement === document.body);
  }

  // ---- shells begin and end

  async function another() {
    if (starting) return; // a second click
    starting = true;
    const answer = await call("POST", "shells");
    starting = false;
    if (answer.status !== 201) {
      const why = reason(answer);
      return shells.length ? say(why, 10) : instead(why, button("Try again", another));
    }
    const name = answer.body.shell;
    instead();
    choose(shells.find((each) => each.name === name) || add(name));
    $("close").disabled = false;
  }

  async function close(shell) {
    const path = `shells/${encodeURIComponent(shell.name)}`;
    let answer = await call("DELETE", path);
    if (answer.status === 409) {
      if (!(await sure(shell.name, reason(answer)))) return shell.focus();
      answer = await call("DELETE", `${path}?force=1`);
    }
    if (answer.status !== 204 && answer.status !== 404) return say(reason(answer), 10);
    gone(shell);
  }

  function sure(name, what) {
    $("sure-name").textContent = name;
    $("sure-what").textContent = what;
    $("sure").returnValue = "";
    $("sure").showModal();
    return new Promise((resolve) => {
      $("sure").addEventListener("close", () => resolve($("sure").returnValue === "end"), { once: true });
    });
  }

  function gone(shell) {
    if (!shells.includes(shell)) return;
    drop(shell);
    say(`${shell.name} has ended.`);
    if (!shells.length) none();
  }

  function none() {
    $("close").disabled = true;
    document.title = [session, "Terminal"].filter(Boolean).join(" · ");
    instead("The last shell has ended.", button("New shell", another));
  }

  /** The socket was closed from there: the shell has ended, or the user has detached from it. */
  async function over(shell) {
    const had = shells.length;
    const answer = await call("GET", "shells");
    if (answer.status !== 200) return lost(shell);
    if (!answer.body.shells.includes(shell.name)) return gone(shell);
    if (!shells.includes(shell) || !had) return;
    shell.word("You have detached. The shell goes on.", button("Attach again", () => (shell.word(), shell.connect(), shell.focus())));
    if (shell === current) shell.focus();
  }

  // ---- lost and found

  function opened(shell) {
    started = true;
    wait = 500;
    tries = 0;
    if (!shell.words.hidden) say("Connected again");
    shell.word();
    if (shell === current && document.activeElement === document.body) shell.focus();
  }

  function lost(shell) {
    shell.word("The connection was lost. Trying again…");
    if (!retrying) retry();
  }

  async function retry() {
    retrying = true;
    for (;;) {
      await pause(wait);
      wait = Math.min(wait * 2, 10_000);
      const found = await look();
      if (found === "there") break;
      if (found === "stopped") return;
      for (const shell of shells) {
        if (!shell.connected && shell.term) shell.word("The session does not answer. Trying again…");
      }
    }
    retrying = false;
    if (!shells.length) return started ? none() : another();
    tries += 1;
    for (const shell of shells.filter((each) => each.term && !each.connected)) {
      if (tries > 4) {
        shell.word("The session answers, but no websocket gets through. A proxy before it may not let them. Trying again…");
      }
      shell.connect();
    }
  }

  /** That long, or until the network is back. */
  function pause(milliseconds) {
    return new Promise((resolve) => {
      setTimeout(resolve, milliseconds);
      addEventListener("online", resolve, { once: true });
    });
  }

  // ---- the bar, the keys, the help

  function control() {
    const key = document.querySelector('[data-key="control"]');
    const held = key.getAttribute("aria-pressed") === "true";
    key.setAttribute("aria-pressed", "false");
    return held;
  }

  function help(open) {
    $("help").hidden = !open;
    $("ask").setAttribute("aria-expanded", String(open));
    open ? $("help").focus() : (current || { focus: () => $("ask").focus() }).focus();
  }

  $("new").addEventListener("click", another);
  $("close").addEventListener("click", () => current && close(current));
  $("ask").addEventListener("click", () => help($("help").hidden));
  $("help-close").addEventListener("click", () => help(false));
  $("help").addEventListener("keydown", (event) => event.key === "Escape" && help(false));
  $("keys").addEventListener("click", (event) => {
    const { key } = event.target.dataset;
    if (key === "control") {
      event.target.setAttribute("aria-pressed", String(event.target.getAttribute("aria-pressed") !== "true"));
      current?.focus();
    } else if (key && current?.term) {
      current.press(key);
    }
  });
  $("reader").checked = Looks.reader();
  $("reader").addEventListener("change", () => {
    Looks.reader($("reader").checked);
    for (const shell of shells) if (shell.term) shell.term.options.screenReaderMode = $("reader").checked;
  });
  // another window may have opened or closed a shell
  addEventListener("focus", () => !retrying && shells.some((each) => each.connected) && look());

  /** A token that somebody came with is for this visit, not for the history and not to be copied. */
  function hideToken() {
    const here = new URL(location.href);
    if (!here.searchParams.has("token")) return;
    here.searchParams.delete("token");
    history.replaceState(null, "", here);
  }

  hideToken();
  (async () => {
    const found = await look();
    if (found === "away") {
      instead("The session does not answer. Trying again…");
      retry();
    } else if (found === "there" && !shells.length) {
      another();
    }
  })();
})();
