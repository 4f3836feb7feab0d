# Three stages: the first brings the widget of the waiting page, the second builds
# the static binary as `make build` does, the third holds nothing else. The binary is
# process 1, so SIGTERM reaches it.
FROM node:24-bookworm AS widget
WORKDIR /src
COPY .ci/widget .ci/widget
RUN CI=true .ci/widget

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
COPY --from=widget /src/web/pages/static/assets/altcha web/pages/static/assets/altcha
RUN make build && mkdir /data

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /src/bin/waitroom /waitroom
COPY --from=build --chown=nonroot:nonroot /data /data
USER nonroot
EXPOSE 8080
ENV WAITROOM_ADDR=:8080 WAITROOM_DATA=/data WAITROOM_LOG_FORMAT=json
ENTRYPOINT ["/waitroom"]
CMD ["serve"]
