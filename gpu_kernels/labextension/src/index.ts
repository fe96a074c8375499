/** The plugin: puts the parts together when JupyterLab starts. */

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStatusBar, type Popup, showPopup } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Poll } from '@lumino/polling';
import { Signal } from '@lumino/signaling';

import style from '../style/index.css';
import { Api, Refused } from './api';
import { Listener } from './events';
import { Front } from './front';
import { Item } from './item';
import { Notifier } from './notifications';
import { PopupBody } from './popup';
import { Slices } from './slices';

const ID = 'gpu-kernels:slice';
const SHOW = 'gpu-kernels:show-slice';
const LOOK_EACH_MS = 5000;
const LONGEST_PAUSE_MS = 60_000;

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows the slice of a GPU that the kernel in front has.',
  autoStart: true,
  requires: [IStatusBar],
  optional: [ITranslator, ICommandPalette],
  activate
};

export default plugin;

function activate(
  app: JupyterFrontEnd,
  statusBar: IStatusBar,
  translator: ITranslator | null,
  palette: ICommandPalette | null
): void {
  const trans = (translator ?? nullTranslator).load('gpu_kernels');
  const api = new Api(app.serviceManager.serverSettings);
  const slices = new Slices();
  const front = new Front(app.shell);
  const listener = new Listener(api, slices);
  const item = new Item(front, slices, listener, toggle, trans);
  let popup: Popup | null = null;

  document.head.append(styled(style));
  new Notifier(slices, app.serviceManager.sessions, id => void openOf(id), trans);

  function open(id: string): void {
    popup?.dispose();
    const body = new PopupBody({ id, slices, api, trans });
    const opened = showPopup({
      body,
      anchor: item,
      align: 'left',
      hasDynamicSize: true
    });
    popup = opened;
    opened.disposed.connect(() => {
      if (popup === opened) {
        popup = null;
        item.node.querySelector('button')?.focus();
      }
    });
  }

  function toggle(id: string): void {
    if (popup) {
      popup.dispose();
    } else {
      open(id);
    }
  }

  /** Brings the notebook to the front first; and lets the click that asked for it end, or it would close it. */
  async function openOf(id: string): Promise<void> {
    await new Promise(requestAnimationFrame);
    const sessions = [...app.serviceManager.sessions.running()];
    const session = sessions.find(({ kernel }) => kernel?.id === id);
    if (session && front.kernel !== id) {
      await app.commands.execute('docmanager:open', { path: session.path });
    }
    open(id);
  }

  const shown = () => slices.get(front.kernel) !== undefined;
  const appeared = new Signal<Slices, void>(slices);
  front.changed.connect(() => appeared.emit());
  slices.changed.connect((_, { before, now }) => {
    if (!before || !now) {
      appeared.emit();
    }
  });
  statusBar.registerStatusItem(ID, {
    item,
    align: 'left',
    rank: 3,
    isActive: shown,
    activeStateChanged: appeared
  });

  app.commands.addCommand(SHOW, {
    label: trans.__('Show the Slice of a GPU'),
    isEnabled: shown,
    execute: () => open(front.kernel!)
  });
  palette?.addItem({ command: SHOW, category: trans.__('Kernel Operations') });

  // Use is asked for only where somebody sees it. Changes come by themselves, unless there is no stream.
  const poll = new Poll({
    auto: false,
    name: '@gpu-kernels:use',
    frequency: { interval: LOOK_EACH_MS, backoff: true, max: LONGEST_PAUSE_MS },
    standby: 'when-hidden',
    factory: async () => {
      const kernel = front.kernel;
      const state = slices.get(kernel)?.slice.state;
      const inUse = state === 'attached' || state === 'waiting';
      if (kernel && (inUse || listener.state === 'broken')) {
        await look(kernel);
      }
    }
  });

  async function look(kernel: string): Promise<void> {
    try {
      slices.put(await api.look(kernel));
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) {
        throw error;
      }
      slices.drop(kernel);
    }
  }

  front.changed.connect(() => void poll.refresh());
  void poll.start();
  void listener.listen();
}

function styled(text: string): HTMLStyleElement {
  const element = document.createElement('style');
  element.textContent = text;
  return element;
}
