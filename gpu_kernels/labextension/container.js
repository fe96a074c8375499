/**
 * The module container that JupyterLab loads: what a bundler with module federation would write, for one module
 * that brings nothing to share. `SHARED` are the packages that the module imports, all of them JupyterLab's own:
 * a second copy of them would have other tokens and another React. Filled in by build.mjs.
 */
(() => {
  let scope;
  let loaded;

  /** The one that is in use already, or else the newest. */
  function pick(name) {
    const versions = Object.entries(scope[name] ?? {});
    if (!versions.length) {
      throw new Error(`gpu-kernels needs ${name}, and this JupyterLab has none.`);
    }
    const byNumber = new Intl.Collator('en', { numeric: true });
    versions.sort(([a, first], [b, second]) => !!second.loaded - !!first.loaded || byNumber.compare(b, a));
    return versions[0][1];
  }

  async function load() {
    const modules = {};
    await Promise.all(
      SHARED.map(async name => {
        modules[name] = (await pick(name).get())();
      })
    );
    const module = { exports: {} };
    MODULE(module, name => modules[name]);
    return module.exports;
  }

  (window._JUPYTERLAB ??= {})[NAME] = {
    init(shared) {
      scope = shared;
    },
    async get(name) {
      if (name !== './extension') {
        throw new Error(`gpu-kernels has no module ${name}.`);
      }
      const module = await (loaded ??= load());
      return () => module;
    }
  };
})();
