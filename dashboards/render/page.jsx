// Draws one dashboard with Grafana's own components; sets the title to READY when all panels are there.
import { createTheme, dateTime, ThemeContext } from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, PanelChrome, Table, TimeSeries } from '@grafana/ui';
import { Component, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { field, frames, series, table } from './data';
import { Timeline } from './timeline';

const WIDTH = 1420;
const CELL = { width: WIDTH / 24, height: 38 };
const HEAD = 44;
const theme = createTheme({ colors: { mode: 'dark' } });

/** What stands in for the list of alerts: those that fired in the time of the picture, a row each. */
const ALERTS = {
  targets: ['critical', 'warning', 'info'].map((severity, rank) => ({
    refId: severity,
    expr: `max by (alertname, source) (ALERTS{alertname=~"Inferlog.+", alertstate="firing", severity="${severity}"}) * ${rank}`,
    legendFormat: '{{source}} {{alertname}}',
  })),
  mappings: [{ options: { 0: { text: 'page', color: 'red' }, 1: { text: 'ticket', color: 'orange' }, 2: { text: 'info', color: 'blue' } } }],
};

function withAlerts(panel) {
  if (panel.type !== 'alertlist') {
    return panel;
  }
  const { defaults, overrides } = panel.fieldConfig;
  return { ...panel, type: 'state-timeline', targets: ALERTS.targets, fieldConfig: { defaults: { ...defaults, mappings: ALERTS.mappings }, overrides } };
}

async function load(panel, window) {
  const all = await series(panel, window);
  const frame = panel.type === 'table' && all.length ? await table(panel, all) : undefined;
  return { all: all.map((each) => ({ ...each, name: each.name.replace(' Inferlog', ' ') })), frame };
}

function Drawing({ panel, all, frame, window, width, height }) {
  const { defaults } = panel.fieldConfig;
  if (panel.type === 'timeseries') {
    const range = { from: dateTime(window.start * 1000), to: dateTime(window.end * 1000) };
    range.raw = range;
    return (
      <TimeSeries frames={frames(theme, panel, all, window)} width={width} height={height} timeRange={range} timeZone="utc" legend={panel.options.legend} options={panel.options} />
    );
  }
  if (panel.type === 'state-timeline') {
    return <Timeline panel={panel} all={all} window={window} width={width} height={height} />;
  }
  if (panel.type === 'table') {
    frame.fields.forEach((each, index) => {
      const overrides = panel.fieldConfig.overrides.filter(({ matcher }) => matcher.options === each.type);
      const own = Object.fromEntries(overrides.flatMap(({ properties }) => properties.map(({ id, value }) => [id, value])));
      Object.assign(each, field(theme, { ...defaults, ...own }, each.config.displayName ?? each.name, each.values, index, each.type));
    });
    return <Table data={frame} width={width} height={height} />;
  }
  const shown = all.slice(0, panel.type === 'stat' ? 6 : 20);
  const share = panel.type === 'stat' ? width / shown.length : height / shown.length;
  const largest = Math.max(...all.map((each) => [...each.points.values()][0]));
  return shown.map(({ name, points }, index) => {
    const made = field(theme, { max: largest, ...defaults }, name, [...points.values()], index);
    const value = { ...made.display(made.values[0]), title: name };
    return panel.type === 'stat' ? (
      <div key={name} style={{ position: 'absolute', left: index * share }}>
        <BigValue value={value} width={share} height={height} theme={theme} colorMode="value" graphMode="none" textMode="value_and_name" justifyMode="auto" text={panel.options.text} />
      </div>
    ) : (
      <div key={name} style={{ height: share, overflow: 'hidden' }}>
        <BarGauge value={value} field={made.config} display={made.display} width={width} height={Math.min(24, share - 2)} theme={theme} orientation="horizontal" displayMode="basic" valueDisplayMode="text" namePlacement="left" alignmentFactors={{ title: 'x'.repeat(30), text: '100 GiB' }} />
      </div>
    );
  });
}

class Guard extends Component {
  state = {};
  static getDerivedStateFromError = (error) => ({ error });
  render() {
    return this.state.error ? <div style={{ color: 'red' }}>{String(this.state.error)}</div> : this.props.children;
  }
}

function Panel({ panel, window, onDrawn }) {
  const [data, setData] = useState();
  useEffect(() => {
    load(panel, window).then(setData, (error) => setData({ all: [], error }));
  }, []);
  useEffect(() => {
    data && onDrawn();
  }, [data]);
  const { x, y, w, h } = panel.gridPos;
  const place = { position: 'absolute', left: x * CELL.width + 4, top: y * CELL.height + HEAD };
  const nothing = data?.error ? String(data.error) : panel.fieldConfig.defaults.noValue;
  return (
    <div style={place}>
      <PanelChrome title={panel.title} width={w * CELL.width - 8} height={h * CELL.height - 8} padding="sm">
        {(width, height) =>
          data &&
          (data.all.length ? (
            <Guard>
              <Drawing panel={panel} {...data} window={window} width={width} height={height} />
            </Guard>
          ) : (
            <div data-empty={panel.title} style={{ display: 'flex', width, height, alignItems: 'center', justifyContent: 'center', color: '#9a9aa5' }}>{nothing}</div>
          ))
        }
      </PanelChrome>
    </div>
  );
}

function Board({ board, span }) {
  const panels = board.panels.map(withAlerts).filter((each) => each.type !== 'row');
  const [drawn, setDrawn] = useState(0);
  useEffect(() => {
    drawn === panels.length && setTimeout(() => (document.title = 'READY'), 800);
  }, [drawn]);
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * CELL.height + HEAD;
  window.firstScreen = (board.panels.find((each) => each.type === 'row')?.gridPos.y ?? bottom) * CELL.height + HEAD;
  return (
    <div style={{ height: bottom + 24, width: WIDTH }}>
      <div style={{ padding: '10px 12px', fontSize: 18 }}>
        {board.title} <span style={{ fontSize: 12, color: '#9a9aa5' }}>{board.description} (Drawn by Grafana's components; state timelines and the alert list are stand-ins.)</span>
      </div>
      {board.panels.map(withAlerts).map((panel) =>
        panel.type === 'row' ? (
          <div key={panel.id} style={{ position: 'absolute', left: 12, top: panel.gridPos.y * CELL.height + HEAD + 10, fontSize: 16 }}>{panel.title}</div>
        ) : (
          <Panel key={panel.id} panel={panel} window={span} onDrawn={() => setDrawn((before) => before + 1)} />
        )
      )}
    </div>
  );
}

const get = async (path) => (await fetch(path)).json();
const [board, span] = await Promise.all([get(`/boards/${new URLSearchParams(location.search).get('board')}`), get('/window.json')]);
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <Board board={board} span={span} />
  </ThemeContext.Provider>
);
