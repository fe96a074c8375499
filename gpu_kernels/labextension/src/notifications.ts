/** Tells what somebody should know who looks elsewhere: granted, ending soon, taken back, refused. */

import { Notification } from '@jupyterlab/apputils';
import type { Session } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { Told } from './slice';
import type { IChange, Slices } from './slices';
import { duration } from './wording';

/** Who waited no longer than this has not looked away. */
const WAITED_S = 5;
/** Seconds before the end at which it is told. */
const WARNINGS = [600, 120];
const LOOK_EACH_MS = 5000;
const AUTO_CLOSE_MS = 15_000;

export class Notifier {
  /** Of each lease, the last warning that was given. */
  private _warned = new Map<string, number>();

  constructor(
    private _slices: Slices,
    private _sessions: Session.IManager,
    private _show: (id: string) => void,
    private _trans: TranslationBundle
  ) {
    this._slices.changed.connect((_, change) => this._changed(change));
    window.setInterval(() => this._warn(), LOOK_EACH_MS);
  }

  private _changed({ id, before, now }: IChange): void {
    if (!before || !now) {
      return;
    }
    const [was, is] = [before.slice, now.slice];
    const granted =
      is.state === 'attached' &&
      (was.state !== 'attached' || is.lease !== was.lease);
    if (granted && was.wanted && before.waited > WAITED_S) {
      const text = this._trans.__('Your GPU slice of %1 is ready.', is.size);
      this._tell(id, text, 'success');
    } else if (is.lost && (!was.lost || was.state === 'attached')) {
      this._tell(id, is.text, 'warning');
    } else if (is.state === 'refused' && was.state !== 'refused') {
      this._tell(id, is.text, 'error');
    } else if (is.declined && is.declined !== was.declined) {
      this._tell(id, is.declined, 'error');
    }
    this._warn();
  }

  private _warn(): void {
    for (const [id, told] of this._slices.all()) {
      this._warnOf(id, told);
    }
  }

  private _warnOf(id: string, told: Told): void {
    const { lease, size, state } = told.slice;
    const left = told.endsIn;
    if (state !== 'attached' || lease === null || left === null) {
      return;
    }
    const due = WARNINGS.filter(seconds => left <= seconds).pop();
    if (due !== undefined && due < (this._warned.get(lease) ?? Infinity)) {
      this._warned.set(lease, due);
      const when = duration(left, this._trans);
      const text =
        told.slice.ends_why === 'class'
          ? this._trans.__(
              'Your GPU slice of %1 makes way for a class in %2. Copy results back.',
              size,
              when
            )
          : this._trans.__(
              'Your GPU slice of %1 ends in %2. Copy results back.',
              size,
              when
            );
      this._tell(id, text, 'warning');
    }
  }

  /** The server's texts may have several lines; a notification has room for the first, and details for all. */
  private _tell(
    id: string,
    text: string,
    type: 'success' | 'warning' | 'error'
  ): void {
    const notebook = this._notebook(id);
    const line = text.split('\n')[0];
    Notification.emit(notebook ? `${notebook}: ${line}` : line, type, {
      autoClose: type === 'success' ? AUTO_CLOSE_MS : false,
      actions: [
        { label: this._trans.__('Details'), callback: () => this._show(id) }
      ]
    });
  }

  private _notebook(id: string): string {
    for (const session of this._sessions.running()) {
      if (session.kernel?.id === id) {
        return session.path.split('/').pop() ?? '';
      }
    }
    return '';
  }
}
