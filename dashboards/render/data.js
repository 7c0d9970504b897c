// From a panel's targets to Grafana's data frames.
import { FieldType, getDisplayProcessor, standardTransformers, standardTransformersRegistry, toDataFrame, transformDataFrame } from '@grafana/data';
import { lastValueFrom } from 'rxjs';

const STEP = 5;
const VALUES = { __rate_interval: '20s', __range: '10m', namespace: '.*', pod: '.*', source: '.*', runtime: '.*', job: '.+', instance: '.+' };

standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation: async () => transformation,
  }))
);

const filled = (expression) => expression.replace(/\$(\w+)/g, (_, name) => VALUES[name]);
const named = (legend, labels) => legend.replace(/{{(\w+)}}/g, (_, name) => labels[name] ?? '').trim();

async function ask(path, parameters) {
  const answer = await (await fetch(`/api/v1/${path}?${new URLSearchParams(parameters)}`)).json();
  if (answer.status !== 'success') {
    throw new Error(`${parameters.query}: ${answer.error}`);
  }
  return answer.data.result;
}

/** All series of a panel: name, labels, times and values, with null where there is none. */
export async function series(panel, window) {
  const found = await Promise.all(
    panel.targets.map(async (target) => {
      const query = filled(target.expr);
      const result = target.instant ? await ask('query', { query, time: window.end }) : await ask('query_range', { query, ...window, step: STEP });
      return result.map(({ metric, value, values }) => ({
        refId: target.refId,
        labels: metric,
        name: named(target.legendFormat, metric),
        points: new Map((values ?? [value]).map(([time, number]) => [Math.round(time * 1000), Number(number)])),
      }));
    })
  );
  return found.flat();
}

/** A number field as Grafana's panels see it. */
export function field(theme, defaults, name, values, index, type = FieldType.number) {
  const made = { name, type, values, config: { ...defaults, displayName: name }, state: { seriesIndex: index, displayName: name } };
  made.display = getDisplayProcessor({ field: made, theme, timeZone: 'utc' });
  return made;
}

/** One frame for each series, on the grid of the query's steps. */
export function frames(theme, panel, all, window) {
  const times = [];
  for (let time = Math.round(window.start * 1000); time <= window.end * 1000; time += STEP * 1000) {
    times.push(time);
  }
  return all.map(({ name, points, refId }, index) => {
    const values = times.map((time) => points.get(time) ?? null);
    const frame = toDataFrame({ refId, fields: [{ name: 'time', type: FieldType.time, values: times, config: {} }] });
    frame.fields.push(field(theme, panel.fieldConfig.defaults, name, values, index));
    frame.length = times.length;
    return frame;
  });
}

/** The table that the panel's transformations make. */
export async function table(panel, all) {
  const several = panel.targets.length > 1;
  const made = panel.targets.map(({ refId }) => {
    const rows = all.filter((each) => each.refId === refId);
    const labels = [...new Set(rows.flatMap((each) => Object.keys(each.labels)))];
    const value = several ? `Value #${refId}` : 'Value';
    return toDataFrame({
      refId,
      fields: [
        ...labels.map((label) => ({ name: label, type: FieldType.string, values: rows.map((each) => each.labels[label] ?? '') })),
        { name: value, type: FieldType.number, values: rows.map((each) => [...each.points.values()][0]) },
      ],
    });
  });
  const [frame] = await lastValueFrom(transformDataFrame(panel.transformations, made.filter((each) => each.length)));
  return frame;
}
