{{- define "inferlog.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Of both modes: nothing but what the mode needs. */}}
{{- define "inferlog.hardening" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "inferlog.liveness" -}}
httpGet: {path: /-/healthy, port: inferlog}
periodSeconds: 20
timeoutSeconds: 5
failureThreshold: 6
{{- end }}

{{/* The container; a chart of yours that depends on this one may include it. */}}
{{- define "inferlog.sidecar" -}}
- name: inferlog
  image: {{ include "inferlog.image" . }}
  {{- with .Values.image.pullPolicy }}
  imagePullPolicy: {{ . }}
  {{- end }}
  {{- if .Values.sidecar.native }}
  restartPolicy: Always
  {{- end }}
  args:
  - run
  {{- if .Values.sidecar.silentJit }}
  - --config=/etc/inferlog/inferlog.yaml
  {{- else }}
  - --log=/logs/*.log
  - --name=engine
  - --state-file=/var/lib/inferlog/state/state.json
  {{- end }}
  {{- range .Values.sidecar.extraArgs }}
  - {{ . | quote }}
  {{- end }}
  env:
  - name: INFERLOG_LABEL_pd_group
    valueFrom:
      fieldRef: {fieldPath: "metadata.labels['pd_group']"}
  ports:
  - {name: inferlog, containerPort: 19877}
  livenessProbe: {{- include "inferlog.liveness" . | nindent 4 }}
  {{- if .Values.sidecar.engineReady }}
  readinessProbe:
    httpGet: {path: /engine/ready, port: inferlog}
    periodSeconds: 5
    timeoutSeconds: 5
  {{- end }}
  resources: {{- .Values.resources | default (dict "requests" (dict "cpu" "20m" "memory" "96Mi") "limits" (dict "memory" "192Mi")) | toYaml | nindent 4 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    {{- include "inferlog.hardening" . | nindent 4 }}
  volumeMounts:
  - {name: logs, mountPath: /logs, readOnly: true}
  - {name: inferlog-state, mountPath: /var/lib/inferlog}
  {{- if .Values.sidecar.silentJit }}
  - {name: inferlog-config, mountPath: /etc/inferlog, readOnly: true}
  - {name: jit-cache, mountPath: /engine-home/.cache, readOnly: true}
  - {name: triton-cache, mountPath: /engine-home/.triton, readOnly: true}
  {{- end }}
{{- end }}

{{/* The pod's volumes that the container and the engine share. */}}
{{- define "inferlog.volumes" -}}
- name: logs
  emptyDir: {sizeLimit: {{ .Values.sidecar.logsSize }}}
- name: inferlog-state
  emptyDir: {sizeLimit: 64Mi}
{{- if eq .Values.sidecar.log "tee" }}
- name: inferlog-logtee
  configMap: {name: {{ .Values.nameOverride }}-logtee}
{{- else }}
- name: inferlog-logging
  configMap: {name: {{ .Values.nameOverride }}-logging}
{{- end }}
{{- if .Values.sidecar.silentJit }}
- name: inferlog-config
  configMap: {name: {{ .Values.nameOverride }}}
- name: jit-cache
  emptyDir: {}
- name: triton-cache
  emptyDir: {}
{{- end }}
{{- end }}
