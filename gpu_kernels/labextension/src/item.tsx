/** The item in the status bar: the slice of the kernel in front, in a line. */

import { ReactWidget } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { Listener } from './events';
import type { Front } from './front';
import { Bar, Icon } from './icons';
import type { Told } from './slice';
import type { Slices } from './slices';
import * as wording from './wording';

/** What counts down is written anew. */
const TICK_MS = 5000;

export class Item extends ReactWidget {
  constructor(
    private _front: Front,
    private _slices: Slices,
    private _listener: Listener,
    private _open: (id: string) => void,
    private _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-GPUSlice-item');
    this._front.changed.connect(() => this.update());
    this._slices.changed.connect(() => this.update());
    this._listener.changed.connect(() => this.update());
    window.setInterval(() => this.update(), TICK_MS);
  }

  protected render(): JSX.Element | null {
    const told = this._slices.get(this._front.kernel);
    if (!told) {
      return null;
    }
    const old = this._listener.state === 'broken' && told.isOld;
    return (
      <>
        <button
          className="jp-GPUSlice-button"
          aria-haspopup="dialog"
          aria-label={wording.sentence(told, old, this._trans)}
          title={wording.sentence(told, old, this._trans)}
          onClick={() => this._open(told.slice.id)}
        >
          <Line told={told} trans={this._trans} />
          {old && <Warned>{this._trans.__('not up to date')}</Warned>}
        </button>
        <span role="status" className="jp-GPUSlice-unseen">
          {wording.standing(told, this._trans)}
        </span>
      </>
    );
  }
}

interface IProps {
  told: Told;
  trans: TranslationBundle;
}

function Line(props: IProps): JSX.Element {
  const { state, size, wanted } = props.told.slice;
  if (state === 'attached') {
    return (
      <>
        <Icon of="chip" />
        <span className="jp-GPUSlice-size">{size}</span>
        <Use {...props} />
        {wanted && (
          <span className="jp-GPUSlice-wanted">
            <Icon of="waiting" /> {wanted.size}:{' '}
            {wording.place(props.told, props.trans)}
          </span>
        )}
      </>
    );
  }
  if (state === 'waiting') {
    return (
      <>
        <Icon of="waiting" />
        <span className="jp-GPUSlice-size">{size}</span>
        <span>{wording.place(props.told, props.trans)}</span>
      </>
    );
  }
  return state === 'refused' ? (
    <Warned>{wording.standing(props.told, props.trans)}</Warned>
  ) : (
    <>
      <Icon of="off" />
      <span>{wording.standing(props.told, props.trans)}</span>
    </>
  );
}

function Use({ told, trans }: IProps): JSX.Element {
  const left = wording.timeLeft(told, trans);
  const busy = wording.busy(told, trans);
  const memory = wording.memory(told, trans);
  return (
    <>
      {told.filled !== null && <Bar part={told.filled} near={told.nearlyFull} />}
      {told.nearlyFull ? <Warned>{memory}</Warned> : <span>{memory}</span>}
      {busy && <span className="jp-GPUSlice-busy">{busy}</span>}
      {left && (told.endsSoon ? <Warned>{left}</Warned> : <span>{left}</span>)}
    </>
  );
}

function Warned(props: { children: React.ReactNode }): JSX.Element {
  return (
    <span className="jp-GPUSlice-warned">
      <Icon of="warning" /> {props.children}
    </span>
  );
}
