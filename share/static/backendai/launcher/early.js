// Before the form is painted: one step at a time, where the rest of it can run.
if ("noModule" in HTMLScriptElement.prototype) document.getElementById("backendai").classList.add("js");
