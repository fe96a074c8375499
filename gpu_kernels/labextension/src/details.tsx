/** What the popup shows of a slice, and the buttons that fit how it stands. */

import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Bar } from './icons';
import type { Change, IBudget } from './resources';
import { NEARLY_FULL, type Told } from './slice';
import * as wording from './wording';

interface IProps {
  told: Told;
  sizes: string[];
  budgets: IBudget[];
  busy: boolean;
  change: (what: Change, size?: string) => void;
  trans: TranslationBundle;
}

export function Details(props: IProps): JSX.Element {
  const { told, trans, budgets } = props;
  const [headline, ...more] = told.slice.text.split('\n');
  return (
    <>
      <p lang="en" className="jp-GPUSlice-headline">
        {headline}
      </p>
      {more.map(line => (
        <p lang="en" key={line}>
          {line}
        </p>
      ))}
      <Rows told={told} trans={trans} />
      <Actions {...props} />
      <Attach {...props} />
      {budgets.length > 0 && (
        <section>
          <h3>{trans.__('Budgets')}</h3>
          {budgets.map(budget => (
            <p key={budget.text} lang="en">
              <Bar part={budget.part} near={budget.part >= NEARLY_FULL} />{' '}
              {budget.text}
            </p>
          ))}
        </section>
      )}
    </>
  );
}

function Rows({ told, trans }: { told: Told; trans: TranslationBundle }) {
  const { slice } = told;
  const rows: [string, React.ReactNode][] = [];
  if (slice.state === 'attached') {
    rows.push([trans.__('Memory'), <Memory told={told} trans={trans} />]);
    if (slice.utilisation !== null) {
      rows.push([trans.__('Busy'), wording.compute(told, trans)]);
    }
    if (told.endsIn !== null) {
      const left = wording.duration(told.endsIn, trans);
      rows.push([trans.__('Time left'), `${left}, ${wording.reason(told, trans)}`]);
    }
    if (slice.device === 'software') {
      rows.push([trans.__('GPU'), trans.__('software, runs on processor cores')]);
    }
  }
  if (slice.wanted) {
    rows.push(
      [trans.__('Waiting for'), slice.wanted.size],
      [trans.__('Place in the line'), wording.place(told, trans)],
      [trans.__('Waited so far'), wording.duration(told.waited, trans)]
    );
  }
  if (slice.course && slice.state !== 'attached') {
    rows.push([trans.__('Course'), slice.course]);
  }
  return (
    <dl>
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Memory({ told, trans }: { told: Told; trans: TranslationBundle }) {
  return (
    <>
      {told.filled !== null && <Bar part={told.filled} near={told.nearlyFull} />}{' '}
      {wording.memory(told, trans)}
      {told.nearlyFull && <strong> {trans.__('nearly full')}</strong>}
    </>
  );
}

function Actions({ told, busy, change, trans }: IProps): JSX.Element {
  const { state, size, wanted } = told.slice;
  const button = (what: Change, label: string, extra = '') => (
    <button
      className={`jp-mod-styled ${extra}`}
      disabled={busy}
      onClick={() => change(what)}
    >
      {label}
    </button>
  );
  if (state === 'attached') {
    return (
      <div className="jp-GPUSlice-actions">
        {wanted &&
          button('keep', trans.__('Stop waiting, keep %1', size))}
        {button('release', trans.__('Release'))}
        <span className="jp-GPUSlice-note">
          {trans.__(
            'You lose what is in the GPU’s memory; variables and files stay.'
          )}
        </span>
      </div>
    );
  }
  return (
    <div className="jp-GPUSlice-actions">
      {state === 'waiting'
        ? button('release', trans.__('Leave the line'))
        : button('wait', trans.__('Wait for %1', size), 'jp-mod-accept')}
    </div>
  );
}

function Attach({ told, sizes, busy, change, trans }: IProps): JSX.Element {
  const others = sizes.filter(size => size !== told.slice.size);
  const [chosen, choose] = React.useState('');
  const size = others.includes(chosen) ? chosen : (others[0] ?? '');
  if (!size) {
    return <></>;
  }
  return (
    <form
      className="jp-GPUSlice-actions"
      onSubmit={event => {
        event.preventDefault();
        change('attach', size);
      }}
    >
      <label>
        {trans.__('Another size')}{' '}
        <select
          className="jp-mod-styled"
          value={size}
          disabled={busy}
          onChange={event => choose(event.target.value)}
        >
          {others.map(other => (
            <option key={other}>{other}</option>
          ))}
        </select>
      </label>
      <button className="jp-mod-styled" disabled={busy}>
        {trans.__('Attach')}
      </button>
    </form>
  );
}
