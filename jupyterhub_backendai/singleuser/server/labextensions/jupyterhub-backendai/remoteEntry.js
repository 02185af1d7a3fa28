// A prebuilt extension of JupyterLab and Notebook, as it is loaded: no bundler made it. It shows what
// `…/backendai/ending` says of this session's end. That decides what is said, when, and what may be done.
"use strict";

(() => {
  const NAME = "jupyterhub-backendai";
  const KEEP = `${NAME}:keep`;
  const notify = "apputils:notify", update = "apputils:update-notification", dismiss = "apputils:dismiss-notification";
  const PATIENCE = 60000; // milliseconds for an answer; to keep it the server asks the service

  /** Asks as JupyterLab asks its server; an answer that is no JSON is an error. */
  async function ask({ baseUrl, token, fetch, init }, method) {
    const headers = { ...init.headers, Accept: "application/json" };
    if (token) headers.Authorization = `token ${token}`;
    const xsrf = document.cookie.match(/\b_xsrf=([^;]*)/);
    if (xsrf) headers["X-XSRFToken"] = xsrf[1];
    const how = { ...init, method, headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) };
    const reply = await fetch(`${baseUrl}backendai/ending`, how);
    const said = await reply.json();
    if (!reply.ok) throw new Error(said.errors[0].message);
    return said;
  }

  function activate(app) {
    const { commands, serviceManager: { serverSettings } } = app;
    let shown = "", last = "", warning = 0, timer = 0, again = 60;

    const execute = (name, args) => commands.execute(name, args);
    const tell = (type, message) => execute(notify, { type, message, options: { autoClose: type === "error" ? false : 10000 } });

    async function show(ending) {
      if (!ending) {
        if (shown) await execute(dismiss, { id: shown });
        shown = "";
        warning = 0;
        return;
      }
      const actions = ending.keep ? [{ label: ending.keep, commandId: KEEP, displayType: "accent" }] : [];
      const said = { type: "warning", message: ending.message };
      // With each command JupyterLab saves its workspace: none without news.
      const news = JSON.stringify(ending);
      if (shown && news === last) return;
      last = news;
      // Once for each warning: who has put one away is told again by the next.
      if (ending.warning > warning) {
        if (shown) await execute(dismiss, { id: shown });
        shown = await execute(notify, { ...said, options: { autoClose: false, actions } });
      } else if (shown) {
        // One that was hidden stays so: 0 changes what is listed, and shows nothing.
        const autoClose = document.getElementById(shown) ? false : 0;
        if (!(await execute(update, { id: shown, ...said, autoClose, actions }))) shown = "";
      }
      warning = ending.warning;
    }

    async function look() {
      clearTimeout(timer);
      try {
        const said = await ask(serverSettings, "GET");
        again = said.again;
        await show(said.ending);
      } catch (error) {
        console.debug("Backend.AI: when this session ends is not known.", error);
      }
      timer = setTimeout(look, again * 1000);
    }

    async function keep() {
      clearTimeout(timer);
      await show(null); // it is up again if it is still true then
      const asks = await execute(notify, { type: "in-progress", message: "Asking to keep it…", options: { autoClose: false } });
      try {
        const { kept, message } = await ask(serverSettings, "POST");
        await tell(kept ? "success" : "error", message);
      } catch (error) {
        await tell("error", error.message);
      }
      await execute(dismiss, { id: asks });
      await look();
    }

    commands.addCommand(KEEP, { label: "Keep this session", execute: keep });
    // Commands of other extensions are there once all have started.
    app.restored.then(() => commands.hasCommand(notify) && look());
  }

  const plugin = { id: `${NAME}:ending`, autoStart: true, activate };
  const modules = { "./extension": () => ({ __esModule: true, default: plugin }) };
  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB[NAME] = {
    init: async () => {}, // it shares no modules
    get: async (name) => modules[name],
  };
})();
