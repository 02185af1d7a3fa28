// Begins what the page needs: each module looks for its own markup, and does nothing without it.
import { listen } from "./live.js";
import { tell } from "./times.js";
import { drains, places } from "./admin.js";
import { endings } from "./end.js";
import { log } from "./log.js";
import { morph } from "./morph.js";
import { notices } from "./notices.js";
import { panel } from "./panel.js";
import { roles } from "./roles.js";
import { selection } from "./select.js";
import { session } from "./session.js";
import { tab } from "./tab.js";

tell();
endings();
selection();
session();
panel();
log();
roles();
places();
drains();
notices();
tab();
listen(morph, "You are signed out, so this page does not change any more.");
if (window.Notification?.permission === "granted") import("./warning.js").then(({ begin }) => begin());
