// A stand-in for Grafana's state timeline, which is on no registry: a row for each series, a colour for each state.
export function Timeline({ panel, all, window, width, height }) {
  const options = panel.fieldConfig.defaults.mappings[0].options;
  const longest = Math.max(...all.map(({ name }) => name.length));
  const left = Math.min(longest * 7 + 14, width * 0.62);
  const across = width - left - 8;
  const tall = Math.min(34, (height - 42) / all.length);
  const seen = [...new Set(all.flatMap(({ points }) => [...points.values()]))].sort((a, b) => a - b).map((value) => options[String(value)]);
  const size = Math.max(8, Math.min(12, tall - 3));
  const at = (time) => left + ((time / 1000 - window.start) / (window.end - window.start)) * across;
  const number = Math.max(2, Math.floor(across / 100));
  const ticks = [...Array(number)].map((_, i) => window.start + ((window.end - window.start) * (i + 0.5)) / number);
  return (
    <svg width={width} height={height} fontFamily="DejaVu Sans" fontSize={size} data-series={all.length}>
      {all.map(({ name, points }, row) => (
        <g key={name} transform={`translate(0 ${row * tall})`}>
          <text x={left - 6} y={tall / 2} textAnchor="end" dominantBaseline="middle" fill="#ccccdc">{name}</text>
          {segments(points).map(({ from, to, value }) => {
            const { text, color } = options[String(value)] ?? { text: String(value), color: '#6e7687' };
            const wide = at(to) - at(from);
            return (
              <g key={from}>
                <rect x={at(from)} y={1} width={Math.max(1, wide)} height={tall - 2} fill={NAMED[color] ?? color} fillOpacity={0.85} />
                {wide > text.length * size * 0.65 && <text x={at(from) + 4} y={tall / 2} dominantBaseline="middle" fill="#fff">{text}</text>}
              </g>
            );
          })}
        </g>
      ))}
      {ticks.map((time) => (
        <text key={time} x={at(time * 1000)} y={height - 24} fontSize={11} textAnchor="middle" fill="#9a9aa5">
          {new Date(time * 1000).toISOString().slice(11, 19)}
        </text>
      ))}
      <foreignObject x={0} y={height - 18} width={width} height={18}>
        <div style={{ display: 'flex', gap: 14, fontSize: 11, whiteSpace: 'nowrap' }}>
          {seen.map(({ text, color }) => (
            <span key={text}><span style={{ color: NAMED[color] ?? color }}>■</span> {text}</span>
          ))}
        </div>
      </foreignObject>
    </svg>
  );
}

const NAMED = { green: '#73bf69', orange: '#ff9830', red: '#f2495c', blue: '#5794f2' };

function segments(points) {
  const made = [];
  for (const [time, value] of points) {
    const last = made.at(-1);
    if (last && time - last.to <= 5000) {
      last.to = time;
      if (last.value === value) {
        continue;
      }
    }
    made.push({ from: time, to: time + 5000, value });
  }
  return made;
}
