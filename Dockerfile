# An image with only the manager, which needs nothing else at run time:
#   docker build -t flux-elastic:latest .
# An image with Fluxion's own library, for --matcher=fluxion:
#   docker build -t flux-elastic:latest-fluxion --target=fluxion .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /manager ./cmd/manager

FROM build AS build-fluxion
RUN CGO_ENABLED=0 go build -tags=fluxion -trimpath -ldflags='-s -w' -o /manager ./cmd/manager

# This image must have flux-sched 0.52 or later in /usr.
FROM fluxrm/flux-sched:noble AS fluxion
COPY --from=build-fluxion /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
