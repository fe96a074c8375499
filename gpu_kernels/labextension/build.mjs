/**
 * Builds the prebuilt extension into built/gpu-kernels: package.json, and static/remoteEntry.HASH.js.
 *
 * esbuild bundles our own modules; packages of JupyterLab stay outside, and container.js takes them from the page.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

import { build } from 'esbuild';

const described = JSON.parse(readFileSync('package.json', 'utf8'));
const { outputFiles, metafile } = await build({
  entryPoints: ['src/index.ts'],
  bundle: true,
  write: false,
  metafile: true,
  format: 'cjs',
  target: 'es2022',
  packages: 'external',
  loader: { '.css': 'text' },
  charset: 'utf8',
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: 'none'
});
const shared = Object.values(metafile.outputs).flatMap(output =>
  output.imports.filter(({ external }) => external).map(({ path }) => path)
);
const container = readFileSync('container.js', 'utf8')
  .replace('SHARED.map', `${JSON.stringify([...new Set(shared)].sort())}.map`)
  .replace('MODULE(', () => `(function (module, require) {\n${outputFiles[0].text}})(`)
  .replace('[NAME]', `[${JSON.stringify(described.name)}]`);

const hash = createHash('sha256').update(container).digest('hex').slice(0, 20);
const load = `static/remoteEntry.${hash}.js`;
const out = `built/${described.name}`;
rmSync(out, { recursive: true, force: true });
mkdirSync(`${out}/static`, { recursive: true });
writeFileSync(`${out}/${load}`, container);
const { name, description, license } = described;
const [, version] = readFileSync('../__init__.py', 'utf8').match(/^__version__ = "(.+)"$/m);
const jupyterlab = { extension: true, _build: { load, extension: './extension' } };
writeFileSync(
  `${out}/package.json`,
  JSON.stringify({ name, version, description, license, jupyterlab }, null, 2) + '\n'
);
