/** Which kernel the notebook or console in front has. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Signal } from '@lumino/signaling';

export class Front {
  readonly changed = new Signal<this, void>(this);
  private _context: ISessionContext | null = null;

  constructor(private _shell: JupyterFrontEnd.IShell) {
    this._shell.currentChanged?.connect(() => this._look());
    this._look();
  }

  /** The kernel's id; null where nothing in front has one. */
  get kernel(): string | null {
    return this._context?.session?.kernel?.id ?? null;
  }

  private _look(): void {
    const widget = this._shell.currentWidget as {
      sessionContext?: ISessionContext;
    } | null;
    const context = widget?.sessionContext ?? null;
    if (context !== this._context) {
      this._context?.kernelChanged.disconnect(this._tell, this);
      this._context = context;
      context?.kernelChanged.connect(this._tell, this);
      this._tell();
    }
  }

  private _tell(): void {
    this.changed.emit();
  }
}
