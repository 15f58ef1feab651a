# Rankwise as an image. `npm ci` comes first: dist/ is built there, not here, so that an image can be built offline.
ARG NODE_IMAGE=node:20-bookworm-slim
FROM ${NODE_IMAGE}
# Owned by the user below, whatever umask the checkout was made with.
COPY --chown=1000:1000 package.json /opt/rankwise/
# Bundles the programs that are given by path; everything else is part of dist/.
COPY --chown=1000:1000 node_modules/esbuild /opt/rankwise/node_modules/esbuild/
COPY --chown=1000:1000 node_modules/@esbuild /opt/rankwise/node_modules/@esbuild/
COPY --chown=1000:1000 dist /opt/rankwise/dist/
# By number: the base image may have no such name.
USER 1000:1000
# Where a program mounted into the container is looked for.
WORKDIR /programs
ENTRYPOINT ["node", "/opt/rankwise/dist/cli.js"]
