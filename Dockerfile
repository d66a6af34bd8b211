# An image with only the manager, which needs nothing else at run time:
#   docker build -t flux-elastic:latest .
# An image with Fluxion's own library, for --matcher=fluxion:
#   docker build -t flux-elastic:latest-fluxion --target=fluxion .
# The images of others are named by tags, which may move. A site that has tested some names them by their digests:
#   docker build --build-arg=GO_IMAGE=golang@sha256:... -t flux-elastic:latest .
# Programs and images name this version:
#   docker build --build-arg=VERSION=$(git describe --tags --always --dirty) -t flux-elastic:latest .
ARG GO_IMAGE=golang:1.26
ARG FLUXION_IMAGE=fluxrm/flux-sched:noble

FROM ${GO_IMAGE} AS build
ARG VERSION
ENV LDFLAGS="-s -w -X=github.com/flux-elastic/flux-elastic/internal/version.version=${VERSION}"
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="${LDFLAGS}" -o /manager ./cmd/manager

FROM build AS build-fluxion
RUN CGO_ENABLED=0 go -C fluxion build -trimpath -ldflags="${LDFLAGS}" -o /manager ./cmd/manager-fluxion

# This image must have flux-sched 0.52 or later in /usr.
FROM ${FLUXION_IMAGE} AS fluxion
COPY --from=build-fluxion /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch
COPY --from=build /manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
